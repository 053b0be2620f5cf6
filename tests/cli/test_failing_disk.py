"""Commands on a disk that takes no more: one line, exit code 74, no half-written file, and the process lives."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
from contextlib import contextmanager, nullcontext

import pytest

from raretag.cli.main import main
from raretag.engine import run as engine
from raretag.runs import manifest
from support.served import feature_rows, train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    feature_rows(folder / "rows.csv")
    return train(folder / "run", ["model.name=mlp"], folder / "rows.csv")


@contextmanager
def full_disk(room):
    """No file can grow beyond `room` bytes: writing fails in the system, below every library."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def called(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["raretag", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


COMMANDS = {
    "predict.csv": lambda run, out: ["predict", run, run.parent / "rows.csv", "--out", out],
    "predict.parquet": lambda run, out: ["predict", run, run.parent / "rows.csv", "--out", out],
    "predict.jsonl": lambda run, out: ["predict", run, run.parent / "rows.csv", "--out", out],
    "model.onnx": lambda run, out: ["export", run, "--out", out],
    "model.pt2": lambda run, out: ["export", run, "--to", "torch", "--out", out],
    "numbers.json": lambda run, out: ["inspect", run.parent / "rows.csv", "--numbers", out],
    "picture.png": lambda run, out: ["inspect", run.parent / "rows.csv", "--picture", out],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_leaves_no_file(name, run, tmp_path, monkeypatch, capsys):
    words = COMMANDS[name](run, tmp_path / name)
    with full_disk(300):
        code = called(monkeypatch, *words)
    errors = capsys.readouterr().err
    assert code == 74, errors
    assert "cannot be written: File too large" in errors
    assert "Traceback" not in errors
    assert [one.name for one in tmp_path.iterdir() if not one.name.endswith(".partial")] == []
    assert called(monkeypatch, *words) == 0  # the same command, when there is room again
    assert (tmp_path / name).stat().st_size > 300


def test_a_foreign_folder_is_not_removed_to_make_room_for_predictions(run, tmp_path, monkeypatch, capsys):
    mine = tmp_path / "p.csv.partial" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert called(monkeypatch, "predict", run, run.parent / "rows.csv", "--out", tmp_path / "p.csv") == 2
    assert "was not made by raretag" in capsys.readouterr().err
    assert mine.read_text() == "mine"


SMALL = ["--set", "model.name=mlp", "--set", "train.epochs=3", "--set", "train.save_every=1", "--method", "focal"]


def failing(number):
    def fail(*given, **more):
        raise OSError(number, os.strerror(number))

    return fail


def gone(monkeypatch, folder):
    """The folder is deleted when the first epoch is measured."""
    real = engine.epoch_row

    def deleting(*given):
        shutil.rmtree(folder, ignore_errors=True)
        return real(*given)

    monkeypatch.setattr(engine, "epoch_row", deleting)
    return nullcontext()


def with_failing(monkeypatch, module, name, number):
    monkeypatch.setattr(module, name, failing(number))
    return nullcontext()


TROUBLE = {  # how it begins, and what is said; the run must be whole or able to go on
    "no room for the configuration": (lambda patch, out: full_disk(100), "File too large"),
    "no room for a checkpoint": (lambda patch, out: full_disk(4_000), "File too large"),
    "the folder is deleted": (gone, "No such file or directory"),
    "no permission": (lambda patch, out: with_failing(patch, os, "open", errno.EACCES), "Permission denied"),
    "a folder for reading": (lambda patch, out: with_failing(patch, os, "open", errno.EROFS), "Read-only file system"),
    "a disk that fails": (lambda patch, out: with_failing(patch, os, "fsync", errno.EIO), "Input/output error"),
    "no room when a file gets its name": (
        lambda patch, out: with_failing(patch, os, "replace", errno.ENOSPC),
        "No space left on device",
    ),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_training_ends_in_one_line_and_can_go_on(trouble, run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    words = ["train", "--data", run.parent / "rows.csv", *SMALL, "--out", out, "--logger", "none"]
    begin, reason = TROUBLE[trouble]
    with monkeypatch.context() as patch, begin(patch, out):
        code = called(patch, *words)
    errors = capsys.readouterr().err
    assert code in (2, 74), errors
    assert reason in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert not list(out.glob("*.new")) if out.exists() else True
    assert called(monkeypatch, *words, "--resume", "auto") == 0  # when the trouble is over
    assert manifest.edited(out) == []
    assert (out / "record.json").is_file()


@pytest.mark.parametrize("command", ["tune", "suggest"])
def test_a_finished_run_survives_commands_on_a_failing_disk(command, run, tmp_path, monkeypatch, capsys):
    shutil.copytree(run, tmp_path / "run")
    card = (tmp_path / "run" / "card.json").read_bytes()
    words = {"tune": ["tune", "--recall", "0.9"], "suggest": ["suggest", "--folds", "2"]}[command]
    words.insert(1, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(errno.ENOSPC))
        code = called(patch, *words)
    errors = capsys.readouterr().err
    assert code == 74, errors
    assert "No space left on device" in errors.splitlines()[-1]
    assert (tmp_path / "run" / "card.json").read_bytes() == card
    assert manifest.edited(tmp_path / "run") == []
    assert called(monkeypatch, *words) == 0
