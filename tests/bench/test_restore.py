"""Published runs as finished cells, and the pages that show them."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from raretag.bench import plan as plans
from raretag.bench import restore, results, runner, table
from raretag.cli.main import app
from raretag.core.errors import UserError
from raretag.labels.store import LabelStore
from raretag.runs import evidence

PLAN = """
title: a small grid
data:
  - {label: digits, set: {data.largest: 20, train.epochs: 1}}
methods:
  - {label: BCE, set: {method.name: binary_cross_entropy}}
  - {label: Focal, set: {method.name: focal, method.gamma: 1.0, method.balance: 2.0}}
  - {label: ASL, set: {method.name: asymmetric}}
seeds: [0, 1]
metrics: {mAP: mAP.total, F1: F1.total}
budgets:
  small: {model.depth: 8, model.width: 4}
"""
LABELS = LabelStore.from_dense(np.eye(3, dtype=np.int8).repeat(20, axis=0))


def write_run(folder, draw):
    """A finished run as far as tables look into it."""
    folder.mkdir(parents=True)
    torch.manual_seed(draw)
    save_file({"test": torch.randn(60, 3) + draw * torch.eye(3).repeat_interleave(20, 0)}, folder / evidence.LOGITS)
    save_file(evidence.packed("test", LABELS.targets()), folder / evidence.FILE)
    total = float(results.resampled_map(folder)[0])
    final = {"mAP": {"total": total}, "F1": {"total": 0.5}, "per_class": {"average_precision": [total, total, None]}}
    record = {"metrics": {"final": final}, "environment": {"raretag": "0"}, "groups": {"tail": [0]}}
    (folder / "record.json").write_text(json.dumps(record))
    (folder / "metrics.jsonl").write_text('{"seconds": 2.5}\n{"seconds": 1.5}\n')
    (folder / "cost.json").write_text('{"cpu_seconds": 3.0}')


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "grid.yaml").write_text(PLAN)
    return plans.load(str(tmp_path / "grid.yaml"))


@pytest.fixture
def records(plan, tmp_path):
    """The file of a grid that was run, without the folders."""
    for at, cell in enumerate(plans.cells(plan, "small")):
        write_run(tmp_path / "before" / cell.name, at)
    path = tmp_path / "records.jsonl"
    path.write_text(table.jsonl(plan, "small", tmp_path / "before", paired=True) + "\n")
    return path


def test_restored_runs_make_the_same_table_and_the_same_records(plan, records, tmp_path):
    cells = plans.cells(plan, "small")
    assert restore.restore(cells, [records], tmp_path / "after") == cells
    assert all(restore.is_restored(tmp_path / "after" / cell.name) for cell in cells)
    shown = [table.markdown(plan, results.sections(plan, "small", tmp_path / at)) for at in ("before", "after")]
    assert shown[0] == shown[1]
    again = table.jsonl(plan, "small", tmp_path / "after", paired=True)
    assert [json.loads(line) for line in again.splitlines()] == [
        json.loads(line) for line in records.read_text().splitlines()
    ]
    for name in ("over_items", "over_labels"):
        before, after = (
            getattr(results.sections(plan, "small", tmp_path / at, paired=True)[0], name)["ASL"]
            for at in ("before", "after")
        )
        numbers = [[one.value, one.low, one.high] for one in (before, after)]
        assert numbers[0] == pytest.approx(numbers[1], abs=2e-4)
        assert before.seeds == after.seeds == (0, 1)
    assert restore.restore(cells, [records], tmp_path / "after") == []  # they are done


def test_what_was_trained_otherwise_is_not_restored_and_what_is_only_named_otherwise_is(records, tmp_path):
    other = PLAN.replace("label: Focal", "label: focal loss").replace("asymmetric}", "asymmetric, train.epochs: 2}")
    other = other.replace("small: {", "small: {train.epochs: 1, ").replace(", train.epochs: 1}", "}")  # another order
    other = other.replace("method.gamma: 1.0, method.balance: 2.0", "method.balance: 2.0, method.gamma: 1.0")
    (tmp_path / "other.yaml").write_text(other)
    cells = plans.cells(plans.load(str(tmp_path / "other.yaml")), "small")
    found = restore.restore(cells, [records], tmp_path / "after")
    assert {cell.method.label for cell in found} == {"BCE", "focal loss"}
    assert {cell.seed for cell in found} == {0, 1}


def test_a_run_that_is_there_is_not_overwritten_and_a_runner_skips_the_others(plan, records, tmp_path):
    cells = plans.cells(plan, "small")
    write_run(tmp_path / "after" / cells[0].name, 7)
    kept = (tmp_path / "after" / cells[0].name / "record.json").read_text()
    assert len(restore.restore(cells, [records], tmp_path / "after")) == len(cells) - 1
    assert (tmp_path / "after" / cells[0].name / "record.json").read_text() == kept
    assert runner.run(cells, tmp_path / "after", jobs=1, threads=1, on_end=pytest.fail) == {}


def test_records_without_scores_count_in_means_and_the_interval_names_its_seeds(plan, records, tmp_path):
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    old = [{k: v for k, v in line.items() if k not in ("resampled_mAP", "average_precision")} for line in lines]
    kept = [line for line in old if line["seed"] == 0] + [line for line in lines if line["seed"] == 1]
    records.write_text("\n".join(map(json.dumps, kept)))
    restore.restore(plans.cells(plan, "small"), [records], tmp_path / "after")
    row = table.markdown(plan, results.sections(plan, "small", tmp_path / "after", paired=True)).splitlines()[4]
    assert row.startswith("| ASL | **")
    assert row.count("(seed 1)") == 2
    assert "±" in row


def test_what_is_no_file_of_records_is_said_in_a_line(plan, tmp_path):
    (tmp_path / "some.jsonl").write_text("no records\n")
    with pytest.raises(UserError, match="is not a file of records"):
        restore.restore(plans.cells(plan, "small"), [tmp_path / "some.jsonl"], tmp_path)
    words = ["bench", str(tmp_path / "grid.yaml"), "--restore", str(tmp_path / "none.jsonl"), "--out", str(tmp_path)]
    ended = CliRunner().invoke(app, words)
    assert isinstance(ended.exception, UserError)
    assert "cannot be read: No such file" in str(ended.exception)


@pytest.fixture
def refresh():
    path = Path(__file__).parents[2] / "docs" / "benchmarks" / "refresh.py"
    spec = importlib.util.spec_from_file_location("refresh", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_keeps_published_intervals_and_says_what_was_not_run_again(
    refresh, plan, records, tmp_path, monkeypatch
):
    monkeypatch.setattr(refresh, "HERE", tmp_path)
    monkeypatch.setattr(refresh, "COSTS", tmp_path / "costs.json")
    monkeypatch.setattr(refresh.plans, "load", lambda name: plan)
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    (tmp_path / "records").mkdir()
    old = [{k: v for k, v in line.items() if k not in ("resampled_mAP", "average_precision")} for line in lines]
    kept = [line for line in old if (line["method"], line["seed"]) != ("ASL", 1)]
    (tmp_path / "records" / "grid.jsonl").write_text("\n".join(map(json.dumps, kept)))
    cells = [
        "| method | mAP | mAP - BCE |",
        "| Focal | 50.0 | **-0.3 [-0.6, -0.0]** |",
        "| ASL | 50.0 | +1.0 [+0.1, +2.0] |",
    ]
    (tmp_path / "grid.md").write_text("\n".join(["# Words", refresh.BEGIN, *cells, refresh.END, "More."]))
    write_run(tmp_path / "runs" / plans.cells(plan, "small", ["ASL", "seed 1"])[0].name, 3)
    refresh.refresh("grid", runs=tmp_path / "runs")
    page = (tmp_path / "grid.md").read_text()
    assert (
        "5 of the runs were not run again with this version: digits: BCE, Focal (seeds 0, 1); digits: ASL (seed 0)."
        in page
    )
    assert "| **-0.3 [-0.6, -0.0]** |" in page
    assert "+1.0" not in page  # ASL has a new run, so the published interval is not of these runs
    assert page.startswith("# Words")
    assert page.endswith("More.")
    assert len((tmp_path / "records" / "grid.jsonl").read_text().splitlines()) == 6
