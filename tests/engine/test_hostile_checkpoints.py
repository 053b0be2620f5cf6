"""A checkpoint of a stranger: nothing of it runs, and the one before it is used."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.engine import checkpoint


class Program:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


class Recorder(Listener):
    def __init__(self):
        self.lines = []

    def message(self, line):
        self.lines.append(line)


def packed(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


HOSTILE = {
    "a program": lambda: packed({"model": Program()}),
    "a list": lambda: packed([1, 2]),
    "an archive of something else": lambda: zipped("a.txt", b"a"),
    "an archive without numbers": lambda: zipped("archive/data.pkl", b"\x80\x02}q\x00."),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_checkpoint_runs_nothing_and_the_one_before_it_is_used(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoint.save(tmp_path, {"step": 1})
    checkpoint.save(tmp_path, {"step": 2})
    (tmp_path / checkpoint.LAST).write_bytes(HOSTILE[name]())
    listener = Recorder()
    assert checkpoint.load(tmp_path, listener) in ({"step": 1}, {})
    assert not (tmp_path / "ran").exists()


def test_without_one_before_it_a_hostile_checkpoint_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / checkpoint.LAST).write_bytes(HOSTILE["a program"]())
    with pytest.raises(UserError, match="no whole checkpoint"):
        checkpoint.load(tmp_path, Recorder())
    assert not (tmp_path / "ran").exists()


def test_a_changed_bit_anywhere_leads_to_the_one_before_it(tmp_path):
    """Most of all in the directory of the archive, whose mistakes libraries do not expect."""
    state = {"step": 2, "bias": torch.zeros(3), "history": [{"epoch": 0}]}
    checkpoint.save(tmp_path, {"step": 1})
    checkpoint.save(tmp_path, state)
    last, before = tmp_path / checkpoint.LAST, (tmp_path / checkpoint.PREVIOUS).read_bytes()
    whole = last.read_bytes()
    directory = whole.index(b"PK\x01\x02")
    places = [directory + chance.number(one, 1) % (len(whole) - directory) for one in range(400)]
    places += [chance.number(one, 2) % len(whole) for one in range(100)]
    for number, place in enumerate(places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << number % 8
        last.write_bytes(damaged)
        (tmp_path / checkpoint.PREVIOUS).write_bytes(before)
        listener = Recorder()
        found = checkpoint.load(tmp_path, listener)
        assert found == {"step": 1}
        assert "last.ckpt is torn or damaged" in listener.lines[0]


def test_a_checkpoint_of_an_older_version_is_read(tmp_path):
    (tmp_path / checkpoint.LAST).write_bytes(packed({"step": 3}))
    assert checkpoint.load(tmp_path, Recorder()) == {"step": 3}
