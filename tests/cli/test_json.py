"""`--json`: one JSON object on standard output and nothing else there, for every command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from raretag.cli import progress
from raretag.cli.main import COMMANDS, LABELS, app
from support.paths import REPOSITORY

TABLE = {  # command: its words, what the object must have, what must be installed
    "list": (["list", "methods"], {"kind", "entries"}, ""),
    "inspect": (["inspect", "my.csv"], {"data", "items", "labels", "groups", "remarks"}, ""),
    "train": (
        ["train", "--data", "my.csv", "--method", "logistic_regression", "--out", "other"],
        {"run", "metrics"},
        "",
    ),
    "report": (["report", "run", "--no-items", "--resamples", "0"], {"report", "runs", "remarks"}, "plotly"),
    "predict": (["predict", "run", "my.csv", "--out", "answers.csv"], {"out", "items", "remarks"}, ""),
    "tune": (["tune", "run", "--precision", "0.8"], {"goal", "wanted", "thresholds"}, ""),
    "export": (["export", "run", "--to", "torch"], {"file", "outputs", "largest_difference"}, ""),
    "push": (["push", "run", "copy"], {"run", "address"}, ""),
    "suggest": (["suggest", "run", "--folds", "2"], {"folder", "missing", "promises", "assumption"}, ""),
    "review": (["review", "run", "--folds", "2"], {"address", "answers", "suggestions"}, "starlette"),
    "serve": (["serve", "run", "--port", "0"], {"address"}, "starlette"),
    "bench": (["bench", "quick", "--table"], {"plan", "runs", "unfinished", "failed"}, ""),
    "sweep": (["sweep", "sweep.yaml", "--trials", "1"], {"best", "trials", "folder"}, "optuna"),
    "figure": (["figure", "db-3", "--out", "figure.png"], {"picture", "figure"}, "matplotlib"),
    "apply": (["labels", "apply", "answered.csv", "--data", "run", "--out", "new.csv"], {"changed", "conflicts"}, ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, answers to it, the file of a sweep, and a finished run."""
    place = tmp_path_factory.mktemp("json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        X = np.random.default_rng(0).normal(size=(60, 3))
        rows = [f"{n},{x:.3f},{y:.3f},{z:.3f},{'sea' if x > 0.2 else ''}" for n, (x, y, z) in enumerate(X)]
        Path("my.csv").write_text("\n".join(["id,a,b,c,tags", *rows]))
        Path("answered.csv").write_text("item,label,was,answer\n0,sea,positive,no\n")
        Path("sweep.yaml").write_text(
            "method: {name: focal}\ndata: {name: digits, largest: 30}\nmodel: {name: mlp}\ntrain: {epochs: 1}\n"
            "search:\n  method.gamma: [1.0]\n"
        )
        app(["train", "--data", "my.csv", "--method", "logistic_regression", "--out", "run"], standalone_mode=False)
    return place


@pytest.fixture
def spoken(folder, monkeypatch, capsys):
    """What a command prints with --json: the object, and what is on standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("raretag.serve.web.serve", lambda app, listening, **_: listening.close())
    monkeypatch.setattr(progress, "as_json", False)

    def run(*words):
        app([*words, "--json"], standalone_mode=False)
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 1, out
        return json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON")), err

    return run


def test_the_table_has_every_command():
    assert set(TABLE) == {*COMMANDS, *LABELS}


def test_the_page_names_the_keys_of_every_command():
    page = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")
    for command, (_, keys, _) in TABLE.items():
        row = re.search(rf"^\| `(?:labels )?{command}` \|.*$", page, re.MULTILINE)
        assert row, command
        assert keys <= set(re.findall(r"`(\w+)`", row[0])), command


@pytest.mark.parametrize("command", TABLE)
def test_one_object_with_what_the_command_found(command, spoken):
    words, keys, package = TABLE[command]
    if package:
        pytest.importorskip(package)
    found, _ = spoken(*words)
    assert keys <= set(found)


def test_predictions_are_in_the_object_if_there_is_no_file(spoken):
    found, _ = spoken("predict", "run", "my.csv")
    assert found["items"] == len(found["predictions"]) == 60
    assert set(found["predictions"][0]) == {"id", "labels", "sea"}


def test_numbers_are_those_of_the_record_and_the_table_goes_to_standard_error(spoken):
    found, said = spoken("train", "--resume", "run")
    final = json.loads(Path("run/record.json").read_text())["metrics"]["final"]
    assert found["metrics"]["mAP"] == final["mAP"]
    assert "mAP" in said
    assert "already finished" in said


@pytest.mark.parametrize("kind", ["solvers", "data", "samplers", "plans", "figures", "encoders"])
def test_every_kind_is_listed(kind, spoken):
    found, _ = spoken("list", kind)
    assert found["kind"] == kind
    assert all(entry["name"] and entry["summary"] for entry in found["entries"])
