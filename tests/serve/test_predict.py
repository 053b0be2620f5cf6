"""`raretag predict`, `tune` and `export` as commands: tables, bounded parts, going on after a stop, mistakes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import raretag
from raretag.cli.main import app
from raretag.core.errors import UserError
from raretag.serve import model
from support.served import digits, feature_rows, train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return digits(tmp_path_factory.mktemp("digits") / "run")


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    feature_rows(folder / "rows.csv")
    return train(folder / "run", ["data.features=[a,b,c]", "data.labels=tags", "data.id=name"], folder / "rows.csv")


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def test_every_format_says_the_same(table_run, tmp_path):
    rows = table_run.parent / "rows.csv"
    for ending in ("csv", "parquet", "jsonl"):
        command("predict", table_run, rows, "--out", tmp_path / f"p.{ending}")
    wanted = raretag.load(table_run).predict(rows)
    parquet = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    text = pyarrow.csv.read_csv(tmp_path / "p.csv")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert parquet["labels"].to_pylist() == wanted.chosen_labels() == [line["labels"] for line in lines]
    assert [labels.split(";") if labels else [] for labels in text["labels"].to_pylist()] == wanted.chosen_labels()
    for column, label in enumerate(wanted.labels):
        np.testing.assert_allclose(parquet[label], wanted.probabilities[:, column], rtol=1e-6)
        np.testing.assert_allclose(text[label], wanted.probabilities[:, column], rtol=1e-5)
        np.testing.assert_allclose([line["probabilities"][label] for line in lines], parquet[label], rtol=1e-6)
    assert not list(tmp_path.glob("*.partial"))


def test_standard_output_is_csv(run):
    lines = command("predict", run, "--part", "validation", "--top", 2).stdout.splitlines()
    assert lines[0] == '"id","labels","top_labels","top_probabilities"'
    assert len(lines) == 1 + len(raretag.load(run).predict(part="validation"))


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_stopped_command_goes_on_and_ends_the_same(table_run, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(model, "MOST_ROWS", 7)  # 60 items in 9 parts
    rows, out = table_run.parent / "rows.csv", tmp_path / f"p.{ending}"
    command("predict", table_run, rows, "--out", tmp_path / f"whole.{ending}")
    blocks = []
    plain = model.Model.decide

    def decide(self, ids, logits):
        if len(blocks) == 4:
            raise KeyboardInterrupt
        blocks.append(len(ids))
        return plain(self, ids, logits)

    monkeypatch.setattr(model.Model, "decide", decide)
    stopped = CliRunner().invoke(app, ["predict", str(table_run), str(rows), "--out", str(out)])
    assert stopped.exit_code != 0
    assert not out.exists()
    assert len(list((tmp_path / f"p.{ending}.partial").glob(f"*.{ending}"))) == 4
    monkeypatch.setattr(model.Model, "decide", plain)
    again = command("predict", table_run, rows, "--out", out)
    assert "after 28 items" in again.stderr
    assert "written: " in again.stderr
    if ending == "parquet":
        assert pyarrow.parquet.read_table(out).equals(pyarrow.parquet.read_table(tmp_path / "whole.parquet"))
    else:
        assert out.read_bytes() == (tmp_path / f"whole.{ending}").read_bytes()


def test_parts_of_other_data_are_not_continued(table_run, tmp_path):
    partial = tmp_path / "p.csv.partial"
    partial.mkdir()
    (partial / "made_from.json").write_text("{}")
    (partial / "000000000-30.csv").write_text("of something else\n")
    command("predict", table_run, table_run.parent / "rows.csv", "--out", tmp_path / "p.csv")
    assert "something else" not in (tmp_path / "p.csv").read_text()


def test_an_existing_file_is_not_touched_unless_asked(run, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("mine")
    with pytest.raises(UserError, match="--overwrite"):
        command("predict", run, "--out", out)
    assert out.read_text() == "mine"
    command("predict", run, "--out", out, "--overwrite")
    assert out.read_text().startswith('"id"')


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["predict", "RUN", "--out", "p.txt"], "written as .csv, .parquet, .jsonl"),
        (["predict", "RUN", "--part", "tset"], "did you mean 'test'"),
        (["predict", "RUN", "--top", "0"], "1 or more"),
        (["predict", "nowhere"], "not a run folder"),
        (["tune", "RUN", "--precision", "3"], "up to 1"),
        (["tune", "RUN", "--precision", "0.5", "--recall", "0.5"], "one goal"),
        (["export", "RUN", "--to", "onnx", "--out", "m.pt2"], "ends in .onnx"),
        (["export", "RUN", "--to", "torch", "--out", "nowhere/m.pt2"], "does not exist"),
        (["export", "RUN", "--to", "torch", "--preprocess"], "nothing to preprocess"),
    ],
)
def test_mistakes_are_one_line_with_the_reason(run, words, reason):
    with pytest.raises(UserError, match=reason) as caught:
        command(*(run if word == "RUN" else word for word in words))
    assert "\n" not in str(caught.value)


def test_labels_with_the_delimiter_in_their_name_stay_readable():
    found = raretag.serve.predictions.Predictions(
        ["x"], ["a;b", "id"], np.array([[0.9, 0.8]], np.float32), np.array([[True, True]])
    )
    flat = raretag.serve.predictions.flat(found.table())
    assert json.loads(flat["labels"][0].as_py()) == ["a;b", "id"]
    assert flat.column_names == ["id", "labels", "a;b", "p(id)"]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """All items teach, and one label has no positive."""
    folder = tmp_path_factory.mktemp("whole")
    rows = "".join(f"{row % 5},{row % 3},{int(row % 5 > 2)},{row % 2},0\n" for row in range(60))
    (folder / "rows.csv").write_text("x,z,label_a,label_b,label_never\n" + rows)
    command("train", "--data", folder / "rows.csv", "--effort", "quick", "--out", folder / "run")
    return folder / "run"


def test_a_run_without_test_items_says_so_instead_of_predicting_nothing(whole_run):
    with pytest.raises(UserError, match=r"the data has no test items; give a file of new items"):
        command("predict", whole_run)
    assert len(command("predict", whole_run, "--part", "train").stdout.splitlines()) == 61


def test_tune_says_why_a_label_is_never_chosen(whole_run):
    said = " ".join(command("tune", whole_run).stdout.split())
    assert "labels that have too few positives to choose a threshold from, and so are never chosen: 1" in said
