"""Answers on their way back into the labels."""

import contextlib
import csv
import io
import json
import os
import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from raretag.cli.main import app
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.data.sources import load
from raretag.data.table import Table
from raretag.labels import corrections
from raretag.labels.corrections import Correction, corrected
from raretag.labels.store import LabelStore

COLUMNS = [["a", 1, 0, ""], ["b", "", 1, 0], ["c", 0, "", 1], ["d", 1, 1, ""]]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def raretag(*arguments, cwd):
    """The command in this process: a new one would load torch each time."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    here = os.getcwd()
    os.chdir(cwd)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(list(arguments), standalone_mode=False)
        except UserError as error:
            print(error, file=sys.stderr)
            code = 2
        finally:
            os.chdir(here)
    return Done(code, out.getvalue(), err.getvalue())


def read_rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def apply(folder, table, out, rows, *more):
    with (folder / "answers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("item", "label", "was", "answer"), *rows])
    done = raretag("labels", "apply", "answers.csv", "--data", table, "--out", out, *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def states(path, **options):
    store, _ = Table(file=str(path), **options).current()
    dense = store.dense()
    return {(str(item), name): dense[row, column] for row, item in enumerate(store.ids)
            for column, name in enumerate(store.names)}  # fmt: skip


def same(a, b):
    return a == b or (np.isnan(a) and np.isnan(b))


def write_columns(path):
    names = ["id", "x", "cat", "dog", "bird"]
    rows = [[item, number / 2, *cells] for number, (item, *cells) in enumerate(COLUMNS)]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([names, *rows])
    else:
        values = [dict(zip(names, [None if cell == "" else cell for cell in row], strict=True)) for row in rows]
        if path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in values))
        else:
            pyarrow.parquet.write_table(pa.Table.from_pylist(values), path)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_table_with_a_column_a_label_changes_where_it_was_answered_and_nowhere_else(ending, tmp_path):
    write_columns(tmp_path / f"t{ending}")
    told = [
        ("a", "bird", "unknown", "yes"),
        ("b", "cat", "unknown", "no"),
        ("d", "cat", "positive", "unsure"),
        ("c", "dog", "unknown", ""),
        ("a", "dog", "unknown", "yes"),  # somebody has said 0 since
    ]
    said = apply(tmp_path, f"t{ending}", f"new{ending}", told, "--set", "data.labels=[cat,dog,bird]")
    assert "labels changed: 3" in said
    assert "conflicts: 1" in said
    assert "was unknown when asked, is negative now" in said
    options = {"labels": ["cat", "dog", "bird"]}
    before, after = states(tmp_path / f"t{ending}", **options), states(tmp_path / f"new{ending}", **options)
    expected = {**before, ("a", "bird"): 1.0, ("b", "cat"): 0.0, ("d", "cat"): np.nan}
    assert all(same(after[key], expected[key]) for key in expected)
    log = read_rows(tmp_path / f"new{ending}.log.csv")
    assert [row["outcome"] for row in log] == ["changed", "changed", "changed", "conflict"]


LISTS = {
    "t.csv": 'id,tags,text\na,cat;dog,"one, two"\nb,,three\nc,bird,four\n',
    "t.tsv": 'id\ttags\ttext\na\tcat;dog\tsay "no\nb\t\tthree\nc\tbird\tfour\n',
    "t.jsonl": '{"id": "a", "tags": ["cat", "dog"], "text": "é"}\n{"id": "b", "tags": [], "text": "x"}\n'
    '{"id": "c", "tags": ["bird"], "text": "y", "more": {"k": 1}}\n',
}


@pytest.mark.parametrize("name", LISTS)
def test_a_column_of_lists_gets_and_loses_labels(name, tmp_path):
    (tmp_path / name).write_text(LISTS[name], encoding="utf-8")
    out = f"new{name[1:]}"
    said = apply(
        tmp_path, name, out, [("b", "cat", "negative", "yes"), ("a", "dog", "positive", "no")],
        "--set", "data.labels=tags",
    )  # fmt: skip
    assert "labels changed: 2" in said
    before, after = (states(tmp_path / file, labels="tags") for file in (name, out))
    expected = {**before, ("b", "cat"): 1.0, ("a", "dog"): 0.0}
    assert {key: value for key, value in after.items() if value == 1} == {k: v for k, v in expected.items() if v == 1}
    untouched = (tmp_path / name).read_text(encoding="utf-8").splitlines()[-1]
    assert untouched in (tmp_path / out).read_text(encoding="utf-8").splitlines()


def test_a_no_finds_a_column_where_unmentioned_labels_are_unknown(tmp_path):
    (tmp_path / "t.csv").write_text(LISTS["t.csv"])
    told = [("b", "cat", "unknown", "no"), ("c", "dog", "unknown", "yes")]
    apply(tmp_path, "t.csv", "new.csv", told, "--set", "data.labels=tags", "--set", "data.absent=unknown")
    after = states(tmp_path / "new.csv", labels="tags")  # the new column says that the rest is unknown
    assert after["b", "cat"] == 0
    assert after["c", "dog"] == 1
    assert np.isnan(after["a", "bird"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_without_changes_a_csv_stays_as_it_is_to_the_byte(end, tmp_path):
    content = LISTS["t.csv"].replace("\n", end).encode()
    (tmp_path / "t.csv").write_bytes(content)
    apply(tmp_path, "t.csv", "new.csv", [("a", "cat", "positive", "yes")], "--set", "data.labels=tags")
    assert (tmp_path / "new.csv").read_bytes() == content


def test_a_list_that_cannot_say_unknown_lists_a_conflict(tmp_path):
    (tmp_path / "t.csv").write_text(LISTS["t.csv"])
    said = apply(tmp_path, "t.csv", "new.csv", [("a", "cat", "positive", "unsure")], "--set", "data.labels=tags")
    assert "has no place for unknown, --as corrections has" in said
    assert states(tmp_path / "new.csv", labels="tags") == states(tmp_path / "t.csv", labels="tags")


def test_contradicting_answers_strange_items_and_labels_are_conflicts(tmp_path):
    (tmp_path / "t.csv").write_text(LISTS["t.csv"])
    told = [("a", "bird", "", "yes"), ("a", "bird", "", "no"), ("z", "cat", "", "yes"), ("a", "cow", "", "yes")]
    said = apply(tmp_path, "t.csv", "new.csv", told, "--set", "data.labels=tags")
    for word in ("answered yes and no", "no such item", "no such label", "labels changed: 0"):
        assert word in said


def test_mistakes_are_one_line(tmp_path):
    (tmp_path / "t.csv").write_text(LISTS["t.csv"])
    (tmp_path / "a.csv").write_text("item,label,answer\na,cat,yes\n")
    tries = {
        "must end in '.csv'": ["--data", "t.csv", "--out", "new.jsonl"],
        "exists; replace it with --overwrite": ["--data", "t.csv", "--out", "t.csv"],
        "is not a table that can be written": ["--data", "digits", "--out", "x.csv", "--as", "table"],
        "the folder of": ["--data", "t.csv", "--out", "no/where.csv"],
        "does not exist": ["--data", "none.csv", "--out", "x.csv"],
        "none of the answered items, such as 'a', is in the data": ["--data", "digits", "--out", "x.csv"],
    }
    for message, arguments in tries.items():
        done = raretag("labels", "apply", "a.csv", *arguments, cwd=tmp_path)
        assert done.returncode == 2, (message, done.stderr)
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert (tmp_path / "t.csv").read_text() == LISTS["t.csv"]


def test_corrections_change_the_store_and_nothing_else():
    store = LabelStore.from_dense(np.array([[1, np.nan, 0], [np.nan, 1, 0]]), names=list("abc"), ids=("x", "y"))
    told = [
        Correction("x", "b", "positive", "unknown"),
        Correction("y", "b", "unknown", "positive"),
        Correction("y", "c", "positive", "unknown"),  # it is negative by now
        Correction("other", "a", "positive"),
    ]
    new, outgrown = corrected(store, told)
    assert np.array_equal(new.dense(), [[1, 1, 0], [np.nan, np.nan, 0]], equal_nan=True)
    assert [one.item for one in outgrown] == ["y"]
    assert new.names == store.names
    assert tuple(new.ids) == ("x", "y")


def test_corrections_are_written_and_read(tmp_path):
    told = [Correction('a "b"', "c,d", "positive", "unknown"), Correction("e", "f", "negative")]
    corrections.write(tmp_path / "c.csv", told)
    assert corrections.read(tmp_path / "c.csv") == told
    (tmp_path / "bad.csv").write_text("item,label,state\na,b,maybe\n")
    with pytest.raises(UserError, match="line 2"):
        corrections.read(tmp_path / "bad.csv")


def test_a_run_reads_corrections_of_the_embedded_digits(tmp_path):
    hidden = ["data.hide=ppl", "data.keep=0.5", "data.largest=40"]
    before = load(compose(None, hidden).data, 0)
    row, column = np.argwhere(before.train.labels.targets().unknown.numpy())[0].tolist()
    name = before.train.labels.names[column]
    corrections.write(tmp_path / "c.csv", [Correction(str(row), name, "negative", "unknown")])
    after = load(compose(None, [*hidden, f"data.corrections={tmp_path / 'c.csv'}"]).data, 0)
    assert after.train.labels.dense()[row, column] == 0
    assert int(after.train.labels.targets().unknown.sum()) == int(before.train.labels.targets().unknown.sum()) - 1
    assert "1 labels corrected" in after.remarks[-1]
    corrections.write(tmp_path / "d.csv", [Correction("99999", name, "negative", "unknown")])
    with pytest.raises(UserError, match="no item '99999'"):
        load(compose(None, [f"data.corrections={tmp_path / 'd.csv'}"]).data, 0)


def test_from_a_run_to_suggestions_to_answers_to_better_labels(tmp_path):
    quick = ["--set", "train.epochs=3", "--set", "data.largest=60", "--set", "model.depth=8", "--set", "model.width=4"]
    hide = ["--set", "data.hide=ppl", "--set", "data.keep=0.5"]
    assert raretag("train", "--method", "assume_negative", *quick, *hide, "--out", "r", cwd=tmp_path).returncode == 0
    done = raretag("suggest", "r", "--folds", "2", "--most", "60", "--answers-from-truth", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "top 60" in done.stdout
    folds = list((tmp_path / "r/out_of_fold").rglob("*.safetensors"))
    assert len(folds) == 2
    stamps = [path.stat().st_mtime_ns for path in folds]
    again = raretag("suggest", "r", "--folds", "2", "--most", "60", "--out", "s", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert [path.stat().st_mtime_ns for path in folds] == stamps  # scored once
    one, other = (read_rows(tmp_path / place / "suggestions.csv") for place in ("r/suggestions", "s"))
    assert [row["item"] for row in one] == [row["item"] for row in other]
    assert {row["answer"] for row in other} == {""}
    refused = raretag("suggest", "r", "--folds", "2", cwd=tmp_path)
    assert refused.returncode == 2
    assert "may hold answers" in refused.stderr
    answered = ["r/suggestions/suggestions.csv", "--data", "r", "--out", "c.csv"]
    done = raretag("labels", "apply", *answered, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = load(compose(tmp_path / "r/config.yaml", [f"data.corrections={tmp_path / 'c.csv'}"]).data, 0)
    targets, truth = data.train.labels.targets(), data.truth.targets()
    assert (targets.value == truth.value)[targets.observed].all()
    plain = load(compose(tmp_path / "r/config.yaml", []).data, 0).train.labels
    assert data.train.labels.observed_share > plain.observed_share
    assert raretag("suggest", "nowhere", cwd=tmp_path).returncode == 2
