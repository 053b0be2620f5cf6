"""Commands on a disk that takes no more: one line, exit code 74, no half-written file, and the process lives."""

from __future__ import annotations

import resource
import sys
from contextlib import contextmanager

import pytest

from raretag.cli.main import main
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
    "numbers.json": lambda run, out: ["inspect", run.parent / "rows.csv", "--json", out],
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
