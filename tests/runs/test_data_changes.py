"""A run and its data: what changed is named and refused, and the order of rows does not matter."""

from __future__ import annotations

import csv
import json
import random
import shutil
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raretag.cli.main import main
from raretag.config.settings import checked, compose, read
from raretag.core.errors import UserError
from raretag.data.arrays import from_arrays
from raretag.data.dataset import DataSet, Items, TensorInputs
from raretag.data.fingerprint import changed, fingerprint
from raretag.data.sources import load
from raretag.engine.run import run as engine_run
from raretag.labels.store import LabelStore
from raretag.runs import evidence, manifest
from raretag.serve.retune import retune
from support.runs import Calls, run

STEPS = ["model.name=mlp", "train.epochs=3", "train.save_every=1", "train.refit=false", "method.name=assume_negative"]
SOLVED = ["method.name=logistic_regression"]


def rows_of(kind, items=60):
    """Header and rows; the first feature or word decides the first label."""
    draw = np.random.default_rng(1)
    header = {"ids": ["id", "a", "b", "tags"], "none": ["a", "b", "tags"], "texts": ["text", "tags"]}[kind]
    rows = []
    for number in range(items):
        a, b = draw.normal(size=2).round(6)
        tags = ";".join(tag for tag, there in (("up", a > 0), ("wide", b > 0.3), ("rare", number % 9 == 0)) if there)
        words = " ".join(("red" if a > 0 else "blue", "big" if b > 0.3 else "small", f"w{number % 7}"))
        cells = {"id": f"item{number}", "a": a, "b": b, "text": words, "tags": tags}
        rows.append([cells[name] for name in header])
    return header, rows


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def other_features(header, rows):
    place = 0 if header[0] == "text" else header.index("a")
    rows[7][place] = "another text" if header[0] == "text" else 123.0


def other_labels(header, rows):
    rows[7][-1] = "rare" if rows[7][-1] != "rare" else "up"


def fewer_items(header, rows):
    del rows[7]


def exchanged_labels(header, rows):
    one, other = next((i, j) for i in range(9) for j in range(9) if rows[i][-1] != rows[j][-1])
    rows[one][-1], rows[other][-1] = rows[other][-1], rows[one][-1]


def another_order(header, rows):
    random.Random(0).shuffle(rows)


CHANGES = {
    "other features": (other_features, "features"),
    "other labels": (other_labels, "labels"),
    "fewer items": (fewer_items, "items"),
    "exchanged labels": (exchanged_labels, None),
    "another order": (another_order, ""),
}


@pytest.mark.parametrize("kind", ["ids", "none", "texts"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_names_what_changed(kind, change, tmp_path):
    header, rows = rows_of(kind)
    path = tmp_path / "rows.csv"
    write(path, header, rows)
    settings = compose(None, ["data.representation=tfidf"] if kind == "texts" else [], str(path))
    before = fingerprint(load(settings.data, 0))
    assert fingerprint(load(settings.data, 0)) == before
    act, named = CHANGES[change]
    act(header, rows)
    write(path, header, rows)
    found = changed(before, fingerprint(load(settings.data, 0)))
    if named == "":
        assert found == []
    else:
        assert found
        assert named is None or named in found


def test_the_form_of_a_store_is_not_its_content():
    states = np.array([[1, 0, np.nan, 0], [0, 0, 1, np.nan], [np.nan, np.nan, np.nan, 1], [0, 1, 0, 0]] * 5)
    whole = LabelStore.from_dense(states)
    inputs = TensorInputs(torch.arange(20.0)[:, None])

    def of(*stores):
        parts, start = [], 0
        for store in stores:
            parts.append(Items(TensorInputs(inputs.values[start : start + len(store)]), store))
            start += len(store)
        return fingerprint(DataSet("made", *parts))

    halves = [whole.take(range(10)), whole.take(range(10, 15)), whole.take(range(15, 20))]
    forms = {type(half.entries.listed) for half in halves} | {half.absent for half in halves}
    dense = [LabelStore.from_dense(states[start:stop]) for start, stop in ((0, 10), (10, 15), (15, 20))]
    assert forms
    assert of(*halves) == of(*dense)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped in its second epoch, and its table."""
    folder = tmp_path_factory.mktemp("stopped")
    write(folder / "rows.csv", *rows_of("none"))

    class Ends(Calls):
        def epoch(self, step, row):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine_run(compose(None, STEPS, str(folder / "rows.csv")), folder / "run", listener=Ends())
    return folder


def again(stopped, tmp_path, change):
    """A copy of the folder with the table changed; the configuration names the copy."""
    shutil.copytree(stopped / "run", tmp_path / "run")
    header, rows = rows_of("none")
    change(header, rows)
    write(tmp_path / "rows.csv", header, rows)
    text = (tmp_path / "run" / "config.yaml").read_text().replace(str(stopped), str(tmp_path))
    (tmp_path / "run" / "config.yaml").write_text(text)
    return checked(read(tmp_path / "run" / "config.yaml")), tmp_path / "run"


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_is_continued_with_its_own_data_only(change, stopped, tmp_path):
    act, named = CHANGES[change]
    config, folder = again(stopped, tmp_path, act)
    if named == "":
        run(config, folder, resume=True)
        assert (folder / "record.json").is_file()
        return
    with pytest.raises(UserError, match=r"the data has changed since .* --data-changed") as refused:
        run(config, folder, resume=True)
    assert named is None or named in str(refused.value)
    assert not (folder / "record.json").exists()
    said = []
    run(config, folder, resume=True, data_changed=True, message=said.append)
    assert any("although the data changed" in line for line in said)


def test_a_run_of_an_older_version_is_continued_with_a_remark(stopped, tmp_path):
    config, folder = again(stopped, tmp_path, other_labels)
    (folder / "manifest.json").unlink()
    said = []
    run(config, folder, resume=True, message=said.append)
    assert any("does not say what its data was" in line for line in said)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    write(folder / "rows.csv", *rows_of("none"))
    run(compose(None, SOLVED, str(folder / "rows.csv"), data__test=0.2), folder / "run")
    return folder


def called(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["raretag", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


COMMANDS = {
    "suggest": lambda run: ["suggest", run, "--folds", "2", "--overwrite"],
    "labels apply": lambda run: ["labels", "apply", "answers.csv", "--data", run, "--out", "new.csv", "--overwrite"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_other_features(command, finished, tmp_path, monkeypatch, capsys):
    shutil.copytree(finished, tmp_path / "all")
    folder = tmp_path / "all" / "run"
    (folder / "config.yaml").write_text(
        (folder / "config.yaml").read_text().replace(str(finished), str(tmp_path / "all"))
    )
    (tmp_path / "all" / "answers.csv").write_text("item,label,answer\n3,rare,yes\n")
    monkeypatch.chdir(tmp_path / "all")
    words = COMMANDS[command](folder)
    code, errors = called(monkeypatch, capsys, *words)
    assert code == 0, errors
    header, rows = rows_of("none")
    other_features(header, rows)
    write(tmp_path / "all" / "rows.csv", header, rows)
    code, errors = called(monkeypatch, capsys, *words)
    assert code == 2
    assert "the data has changed" in errors
    assert "features" in errors
    code, errors = called(monkeypatch, capsys, *words, "--data-changed")
    assert code == 0, errors


def test_other_features_never_find_the_folds_of_the_old_ones(finished, tmp_path):
    from raretag.engine.out_of_fold import key_of

    config = checked(read(finished / "run" / "config.yaml"))
    data = load(config.data, config.seed)
    header, rows = rows_of("none")
    other_features(header, rows)
    write(tmp_path / "rows.csv", header, rows)
    other = compose(None, SOLVED, str(tmp_path / "rows.csv"), data__test=0.2)
    assert key_of(config, data) != key_of(config, load(other.data, 0))
    assert key_of(config, data) == key_of(config, load(config.data, config.seed))


def test_thresholds_are_not_tuned_on_other_labels(finished, tmp_path):
    """Where the run did not keep its labels, they come from the data, which must be that of training."""
    shutil.copytree(finished, tmp_path / "all")
    folder = tmp_path / "all" / "run"
    card = (folder / "card.json").read_bytes()
    (folder / evidence.FILE).unlink()
    found = json.loads((folder / manifest.FILE).read_text())
    del found["files"][evidence.FILE]
    (folder / manifest.FILE).write_text(json.dumps(found))
    header, rows = rows_of("none")
    before = (finished / "rows.csv").read_text()
    try:
        other_labels(header, rows)
        write(finished / "rows.csv", header, rows)
        with pytest.raises(UserError, match="other labels"):
            retune(folder)
        assert (folder / "card.json").read_bytes() == card
        retune(folder, data_changed=True)
    finally:
        (finished / "rows.csv").write_text(before)


@pytest.mark.parametrize("kind", ["ids", "none", "texts"])
@pytest.mark.parametrize("settings", [SOLVED, ["method.name=blend", "effort=quick"], STEPS], ids=lambda s: s[-1])
def test_the_order_of_rows_changes_nothing(kind, settings, tmp_path):
    header, rows = rows_of(kind)
    records, weights = [], []
    for number in range(2):
        path = tmp_path / f"{number}" / "rows.csv"
        path.parent.mkdir()
        write(path, header, rows)
        config = compose(None, [*settings, *(["data.representation=tfidf"] if kind == "texts" else [])], str(path))
        records.append(run(config, tmp_path / f"{number}" / "run"))
        weights.append(load_file(tmp_path / f"{number}" / "run" / "model.safetensors"))
        random.Random(5).shuffle(rows)
    one, other = records
    assert one["metrics"] == other["metrics"]
    assert one["method"]["learned"] == other["method"]["learned"]
    assert one["data"]["content"] == other["data"]["content"]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_table_of_an_older_run_is_dealt_by_rows(tmp_path):
    header, rows = rows_of("none")
    write(tmp_path / "rows.csv", header, rows)
    config = compose(None, [], str(tmp_path / "rows.csv"))
    assert config.data.order == "items"
    tree = config.model_dump(mode="json")
    del tree["data"]["order"]
    old = checked(tree)
    assert old.data.order == "rows"
    parts = load(old.data, 0)
    places = [int(item) for item in parts.train.labels.ids]
    assert places == sorted(places)
    expected = from_arrays(
        np.array([row[:2] for row in rows], np.float32),
        LabelStore.from_lists(
            [row[2].split(";") if row[2] else [] for row in rows], ids=[str(n + 1) for n in range(60)]
        ),
    )
    assert list(parts.test.labels.ids) == list(expected.test.labels.ids)


def test_copies_of_an_item_are_told_apart_by_their_labels(tmp_path):
    rows = [[1.0, 2.0, "up"], [1.0, 2.0, ""], [1.0, 2.0, "up;rare"]] * 8 + [[0.0, float(n), "rare"] for n in range(16)]
    found = []
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        write(tmp_path / "rows.csv", ["a", "b", "tags"], rows)
        data = load(compose(None, [], str(tmp_path / "rows.csv")).data, 0)
        assert len(data.train.labels.item_keys().unique()) == len(data.train)
        found.append(data.train.labels.name_lists())
    assert found[0] == found[1] == found[2]
