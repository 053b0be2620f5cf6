"""One writer per run folder: races have one winner, and a lock that its holder left behind is taken over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from raretag.core.errors import UserError
from raretag.runs import lock

WRITER = """
import sys, time
from pathlib import Path
from raretag.core.errors import UserError
from raretag.runs.lock import writing
folder, log, rounds = Path(sys.argv[1]), open(sys.argv[2], "a", buffering=1), int(sys.argv[3])
for _ in range(rounds):
    try:
        with writing(folder, lambda line: None):
            log.write("in\\n")
            time.sleep(0.002)
            log.write("out\\n")
    except UserError as error:
        assert "is being written" in str(error), error
        log.write("refused\\n")
        time.sleep(0.01)
"""


def test_eight_writers_never_write_at_once(tmp_path):
    folder, log = tmp_path / "run", tmp_path / "log"
    words = [sys.executable, "-c", WRITER, str(folder), str(log), "40"]
    writers = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    for one in writers:
        _, errors = one.communicate(timeout=120)
        assert one.returncode == 0, errors
    said = log.read_text().split()
    assert len([word for word in said if word != "out"]) == 8 * 40
    turns = [word for word in said if word != "refused"]
    assert turns == ["in", "out"] * (len(turns) // 2)
    assert len(turns) >= 2 * 2
    assert not (folder / lock.FILE).exists()


def test_a_killed_writer_is_followed_with_a_message(tmp_path):
    holds = "import os, sys, time\nfrom pathlib import Path\nfrom raretag.runs.lock import writing\n"
    holds += "with writing(Path(sys.argv[1]), print):\n    print('in', flush=True)\n    time.sleep(60)"
    writer = subprocess.Popen([sys.executable, "-c", holds, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "in\n"
    busy = f"by process {writer.pid} of .* on {socket.gethostname()} since"
    with pytest.raises(UserError, match=busy), lock.writing(tmp_path, print):
        pass
    (tmp_path / "record.json.elsewhere.1.new").write_text("half")
    writer.kill()
    writer.wait()
    writer.stdout.close()
    said = []
    with lock.writing(tmp_path, said.append):
        assert f"took over the lock by process {writer.pid}" in said[0]
        assert not list(tmp_path.glob("*.new"))
        assert json.loads((tmp_path / lock.FILE).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("age", [5.0, 3600.0])
def test_another_machine_is_waited_for_until_it_gives_no_sign(age, tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "STALE", 5.2)
    monkeypatch.setattr(lock, "PAUSE", 0.01)
    path = tmp_path / lock.FILE
    path.write_text(json.dumps({"owner": "ann", "host": "another", "pid": 1, "since": "yesterday"}))
    os.utime(path, (time.time() - age,) * 2)
    said = []
    with lock.writing(tmp_path, said.append):
        pass
    assert ("waiting" in said[0]) == (age == 5.0)
    assert "took over the lock by process 1 of ann on another" in said[-1]


def test_another_machine_that_lives_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / lock.FILE
    path.write_text(json.dumps({"owner": "ann", "host": "another", "pid": 1, "since": "yesterday"}))
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: os.utime(path, (1, 2)))  # its holder touches it
    with pytest.raises(UserError, match="by process 1 of ann on another"), lock.writing(tmp_path, print):
        pass
    assert json.loads(path.read_text())["host"] == "another"
