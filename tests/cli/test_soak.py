"""Train, kill, resume, tune, suggest, apply in random order: whatever happens, what is left is whole and the same.

RARETAG_SOAK is how many seconds it takes (30 minutes for a release: 1800), RARETAG_SOAK_SEED which order. The actions
and the moments of the kills follow from the seed; every one is printed, so that a find can be played again.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sys
import time

import pytest

from raretag.cli.main import main
from raretag.runs import manifest
from raretag.runs.folder import is_finished
from raretag.serve.model import load
from support.served import feature_rows

SECONDS, SEED = float(os.environ.get("RARETAG_SOAK", "60")), int(os.environ.get("RARETAG_SOAK_SEED", "0"))
SETTINGS = ["model.name=mlp", "train.epochs=12", "train.save_every=1", "train.refit=false", "method.name=focal"]


def start(words, log):
    """The command in a child of this process, which has loaded everything already."""
    process = os.fork()
    if process:
        return process
    code = 99
    try:
        place = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(place, 1)
        os.dup2(place, 2)
        sys.argv = ["raretag", *map(str, words)]
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


class House:
    """The folder of a run with its table, and what it must always be like."""

    def __init__(self, folder):
        self.folder, self.run, self.rows = folder, folder / "run", folder / "rows.csv"
        feature_rows(self.rows, items=80)
        self.known = {}  # what was seen once is never seen otherwise
        self.counts = {}

    def words(self, action, draw):
        train = ["train", "--data", self.rows, "--out", self.run, "--resume", "auto", "--logger", "none"]
        for setting in SETTINGS:
            train += ["--set", setting]
        return {
            "train": train,
            "tune": ["tune", self.run, "--recall", str(draw.choice([0.5, 0.7, 0.9]))],
            "suggest": ["suggest", self.run, "--folds", "2", "--overwrite"],
            "apply": ["labels", "apply", "answers.csv", "--data", self.run, "--out", "new.csv", "--overwrite"],
            "predict": ["predict", self.run, self.rows, "--out", self.folder / "p.csv", "--overwrite"],
            "report": ["report", self.run, "--out", self.folder / "report.html"],
        }[action]

    def remember(self, name, content):
        assert self.known.setdefault(name, content) == content, f"{name} is another one now"

    def check(self, action, ended):
        """After every action, whether it was killed or not."""
        files = manifest.read(self.run)["files"] if (self.run / manifest.FILE).is_file() else {}
        if is_finished(self.run):
            assert manifest.edited(self.run) == []
            model = load(self.run)
            assert all(0 <= value <= 1 for value in model.card.thresholds)
            self.remember("record", json.loads((self.run / "record.json").read_text())["metrics"])
            self.remember("weights", files["model.safetensors"])
        if not ended:
            return
        if action in ("tune", "suggest"):  # a writer leaves nothing behind, also not of those before it
            assert not list(self.run.glob("*.new"))
            assert not (self.run / "writer.lock").exists()
        if action == "suggest":
            self.remember("list", (self.run / "suggestions" / "suggestions.jsonl").read_text())
        if action == "apply":
            self.remember("table", (self.folder / "new.csv").read_text())
        if action == "predict":
            with (self.folder / "p.csv").open(newline="") as file:
                assert len(list(csv.reader(file))) == 81


@pytest.mark.slow
def test_whatever_happens_the_run_is_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").touch()
    house, draw = House(tmp_path), random.Random(SEED)
    (tmp_path / "answers.csv").write_text("item,label,answer\n4,up,yes\n6,wide,no\n")
    until, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        action = draw.choice(["train", "train", "tune", "suggest", "suggest", "apply", "predict", "report"])
        ends = draw.choice([None, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        pause = draw.random() ** 2 * 3
        number += 1
        process = start(house.words(action, draw), tmp_path / "log")
        if ends is not None:
            time.sleep(pause)
            os.kill(process, ends)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        said = (tmp_path / "log").read_text(errors="replace")
        line = f"{number}: {action}, {'left alone' if ends is None else f'{ends.name} after {pause:.2f} s'}: {code}"
        print(line)
        unfinished = "not finished" in said or "not a run folder" in said or "not the folder of a finished run" in said
        killed = code in (-9, -15, 143)  # -15: before the command had begun to listen
        assert code == 0 or killed or (code == 2 and unfinished), f"{line}\n{said}"
        assert "Traceback" not in said, f"{line}\n{said}"
        house.counts[action, code] = house.counts.get((action, code), 0) + 1
        house.check(action, code == 0)
    print(house.counts)
