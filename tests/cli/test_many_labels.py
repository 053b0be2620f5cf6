"""Every command on a run with very many labels, as a user types them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from raretag.bench import extreme
from raretag.cli.main import app
from raretag.core.errors import UserError
from raretag.figures.parts.runs import read_run
from raretag.recommend.race import recommend
from support.many_labels import words_and_labels, write_svm


def raretag(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained run and its files."""
    folder = tmp_path_factory.mktemp("many")
    write_svm(folder / "big.svm", *words_and_labels())
    write_svm(folder / "new.txt", *words_and_labels(30, seed=1))
    shown = raretag("train", "--data", folder / "big.svm", "--method", "centroids", "--out", folder / "run")
    assert "PSP@5" in shown
    assert "held-out items of" in shown
    return folder


def test_predict_streams_the_first_labels(folder):
    raretag("predict", folder / "run", folder / "new.txt", "--top", "2", "--out", folder / "p.jsonl")
    rows = [json.loads(line) for line in (folder / "p.jsonl").read_text().splitlines()]
    assert len(rows) == 30
    assert all(len(row["probabilities"]) == 2 for row in rows)


def test_tune_says_its_threshold(folder):
    assert "one threshold for precision 0.5" in raretag("tune", folder / "run", "--precision", "0.5")
    raretag("tune", folder / "run")


def test_export_writes_an_archive_and_no_graph(folder):
    assert "model.npz" in raretag("export", folder / "run")
    with pytest.raises(UserError, match="written as npz"):
        raretag("export", folder / "run", "--to", "onnx")


def test_suggest_lists_missing_labels(folder):
    raretag("suggest", folder / "run", "--max-missing", "20", "--folds", "2")
    lines = (folder / "run" / "suggestions" / "suggestions.csv").read_text().splitlines()
    assert len(lines) == 21


def test_resuming_a_finished_run_does_nothing(folder):
    assert "was already finished" in raretag("train", "--resume", folder / "run")


def test_inspect_counts(folder):
    assert "40, " in raretag("inspect", folder / "big.svm")


def test_what_scores_every_label_says_that_it_does_not_go(folder, monkeypatch):
    with pytest.raises(UserError, match="figures are of runs that score every label"):
        read_run(folder / "run")
    with pytest.raises(UserError, match="fitted by one process"):
        raretag(
            "train", "--data", folder / "big.svm", "--method", "centroids", "--devices", "2", "--out", folder / "two"
        )
    monkeypatch.setattr("raretag.core.ranker.MANY_LABELS", 40)
    with pytest.raises(UserError, match="`raretag train` chooses a ranker"):
        recommend(str(folder / "big.svm"))


def test_the_benchmark_makes_its_files_and_names_absent_peers(tmp_path, monkeypatch):
    words = ["sun", "moon", "star", "rain", "snow", "wind", "tree", "leaf", "stone", "river"]
    texts = [" ".join(words[(row * step) % 10] for step in (1, 3, 7)) for row in range(240)]
    monkeypatch.setattr(extreme, "SIZES", {"tiny": (2, 1000, 50)})
    extreme.make_files(texts, tmp_path / "files")
    header = (tmp_path / "files" / "tiny.train.svm").read_text().splitlines()[0].split()
    assert header[0] == "64"
    monkeypatch.setattr(extreme, "ROWS", (extreme.ROWS[1], extreme.Row("a peer", "no_such_package:tree", "no-such")))
    said = []
    extreme.run(tmp_path, [], said.append, data=tmp_path / "files")
    assert any("no_such_package is not installed" in line for line in said), said
    shown = extreme.table(tmp_path)
    assert "| raretag, `centroids` |" in shown
    assert "not run (needs no-such)" in shown
