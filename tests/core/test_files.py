"""A file is complete or not there at all, whatever the disk does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from raretag.core import files
from raretag.core.errors import UnwritableError, UserError


def left(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_failing_fsync_is_one_line_and_leaves_the_old_file(tmp_path, monkeypatch, number):
    (tmp_path / "a.txt").write_text("old")

    def fail(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UnwritableError, match=rf"'.*a\.txt' cannot be written: {os.strerror(number)}"):
        files.write_text(tmp_path / "a.txt", "new")
    assert left(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_errors_of_the_system_are_known_when_a_library_words_them(tmp_path):
    def write():
        with files.replacing(tmp_path / "a") as new:
            new.write_bytes(b"half")
            raise RuntimeError("I/O error: no room (os error 28)")

    with pytest.raises(UnwritableError, match="cannot be written: No space left on device"):
        write()
    assert left(tmp_path) == []


def test_other_errors_pass_as_they_are(tmp_path):
    with pytest.raises(ZeroDivisionError), files.replacing(tmp_path / "a"):
        _ = 1 / 0
    with pytest.raises(UserError, match=r"^mine$"), files.replacing(tmp_path / "a"):
        raise UserError("mine")


def test_a_folder_that_is_gone_is_one_line(tmp_path):
    with pytest.raises(UnwritableError, match="No such file or directory"):
        files.write_text(tmp_path / "gone" / "a.txt", "new")


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_stays(tmp_path):
    path = tmp_path / "a[1].txt"
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = tmp_path / f"{path.name}.{files._host()}.{child.pid}.new"
    alive = tmp_path / f"{path.name}.{files._host()}.{os.getppid()}.new"
    elsewhere = tmp_path / f"{path.name}.another-host.{child.pid}.new"
    for one in (dead, alive, elsewhere):
        one.write_text("half")
    files.write_text(path, "whole")
    assert left(tmp_path) == sorted([path.name, alive.name, elsewhere.name])
