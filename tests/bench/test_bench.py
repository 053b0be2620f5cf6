"""Plans, the runner that can be stopped, and the table."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from raretag.bench import plan as plans
from raretag.bench import results, runner, table
from raretag.bench.estimate import READ, Estimate, estimate, kind_of
from raretag.bench.worker import run_task
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.labels.store import LabelStore
from raretag.runs import evidence
from support.runs import run

PLAN = """
title: a small grid
data:
  - {label: digits, set: {data.largest: 20}}
settings:
  - {label: all}
  - {label: PPL, set: {data.hide: ppl, data.keep: 0.6}}
methods:
  - {label: BCE, set: {method.name: binary_cross_entropy}, published: {mAP: 50.0}}
  - {label: AN, set: {method.name: assume_negative}}
seeds: [0, 1]
metrics: {mAP: mAP.total, F1: F1.total}
budgets:
  small: {train.epochs: 1, model.depth: 8, model.width: 4}
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "grid.yaml").write_text(PLAN)
    return plans.load(str(tmp_path / "grid.yaml"))


@pytest.mark.parametrize("name", plans.names())
def test_plans_of_the_package_are_whole(name):
    plan = plans.load(name)
    for budget in plan.budgets:
        for cell in plans.cells(plan, budget):
            compose(None, list(cell.changes))  # every setting exists
    assert {"small", "paper"} <= set(plan.budgets)


@pytest.mark.slow
@pytest.mark.parametrize("name", plans.names())
def test_the_first_cell_of_a_plan_trains(name, tmp_path):
    """On the first of its data sets that is on this disk."""
    plan, seen = plans.load(name), set()
    for cell in plans.cells(plan, "small", [f"seed {plans.load(name).seeds[0]}"]):
        if cell.data.label in seen:
            continue
        seen.add(cell.data.label)
        changes = [*cell.changes, "train.epochs=1"]
        outcome = run_task({"folder": str(tmp_path / cell.name), "like": "", "changes": changes, "seed": cell.seed})
        if outcome.get("data_absent") or "o such file" in outcome.get("error", "") or "does not exist" in str(outcome):
            continue
        assert outcome == {}
        assert results.reach(results.final_of(tmp_path / cell.name), "mAP.total") is not None
        return
    pytest.skip("none of its data is on this disk")


def test_settings_of_a_method_may_belong_to_one_data_set(tmp_path):
    text = PLAN.replace(
        "{method.name: assume_negative}}", "{method.name: focal}, by_data: {DATA: {method.gamma: 1.0}}}"
    )
    (tmp_path / "grid.yaml").write_text(text.replace("DATA", "digits"))
    cell = plans.cells(plans.load(str(tmp_path / "grid.yaml")), "small", ["AN"])[0]
    assert compose(None, list(cell.changes)).method.options == {"gamma": 1.0}
    (tmp_path / "grid.yaml").write_text(text.replace("DATA", "digitz"))
    with pytest.raises(UserError, match="by_data has 'digitz'"):
        plans.load(str(tmp_path / "grid.yaml"))


def test_the_grid_has_every_combination_once_and_names_tell_them_apart(small):
    grid = plans.cells(small, "small")
    assert len({cell.name for cell in grid}) == len(grid) == 8
    assert [cell.seed for cell in grid] == [0] * 4 + [1] * 4


def test_a_part_of_the_grid_can_be_named(small):
    grid = plans.cells(small, "small", ["PPL", "seed 1", "AN"])
    assert [(cell.setting.label, cell.method.label, cell.seed) for cell in grid] == [("PPL", "AN", 1)]
    assert len(plans.cells(small, "small", ["BCE", "AN", "PPL"])) == 4
    with pytest.raises(UserError, match="did you mean 'seed 1'"):
        plans.cells(small, "small", ["seed1"])


def test_an_unknown_budget_or_plan_is_answered_with_the_known_ones(small):
    with pytest.raises(UserError, match="small"):
        plans.cells(small, "smal")
    with pytest.raises(UserError, match="did you mean 'quick'"):
        plans.load("quik")


def record(folder, total):
    folder.mkdir(parents=True)
    final = {"mAP": {"total": total}, "F1": {"total": None}}
    (folder / "record.json").write_text(json.dumps({"metrics": {"final": final}}))


def test_the_table_marks_the_best_and_shows_the_paper(small, tmp_path):
    for cell in plans.cells(small, "small"):
        if cell.setting.label == "all":
            record(tmp_path / cell.name, {"BCE": 0.4, "AN": 0.6}[cell.method.label] + 0.02 * cell.seed)
    found = results.sections(small, "small", tmp_path)
    text = table.markdown(small, found)
    assert "| BCE | <u>41.0 ± 1.4</u> (50.0) | - |" in text
    assert "| AN | **61.0 ± 1.4** | - |" in text
    assert "PPL" not in text  # the setting that has not been run
    assert r"\textbf{61.0 $\pm$ 1.4}" in table.latex(small, found)
    assert table.csv(small, found).splitlines()[1].startswith('"all","BCE","mAP",0.410000')


def test_a_search_shows_what_one_column_chooses(tmp_path):
    (tmp_path / "grid.yaml").write_text(PLAN + "choose: F1\n")
    plan = plans.load(str(tmp_path / "grid.yaml"))
    for cell in plans.cells(plan, "small"):
        hidden, other = cell.setting.label == "PPL", cell.method.label == "AN"
        final = {"mAP": {"total": 0.5 + 0.1 * other}, "F1": {"total": 0.3 + (0.2 if hidden else -0.1) * other}}
        final["per_class"] = {"average_precision": [0.5 + 0.1 * other] * 3}
        if not (hidden and cell.seed):
            (tmp_path / cell.name).mkdir()
            (tmp_path / cell.name / "record.json").write_text(json.dumps({"metrics": {"final": final}}))
    found = table.chosen(plan, results.sections(plan, "small", tmp_path))
    assert "| all | BCE | 50.0 (+0.0) | 30.0 (+0.0) |  |" in found
    assert "| PPL | AN | 60.0 (+10.0) | 50.0 (+20.0) | **+10.0 [+10.0, +10.0]** |" in found
    assert "| AN | 1.5 | +10.0 | +5.0 |" in found
    assert "| all | AN |" not in found
    families = PLAN.replace("{label: BCE,", "{label: BCE, family: A,").replace("{label: AN,", "{label: AN, family: B,")
    (tmp_path / "grid.yaml").write_text(families + "choose: F1\n")
    plan = plans.load(str(tmp_path / "grid.yaml"))
    found = table.chosen(plan, results.sections(plan, "small", tmp_path))
    assert "| all | BCE | 50.0 (+0.0) |" in found  # one of each family
    assert "| all | AN | 60.0 (+10.0) | 20.0 (-10.0) |" in found
    (tmp_path / "grid.yaml").write_text(PLAN + "choose: F2\n")
    with pytest.raises(UserError, match="choose is 'F2'"):
        plans.load(str(tmp_path / "grid.yaml"))


def test_one_chooses_by_the_epoch_that_was_kept(tmp_path):
    epochs = [{"validation": {"mAP": {"total": value}}} for value in (0.2, 0.5, 0.4)]
    for patience, expected in ((None, 0.4), (2, 0.5)):
        record = {"config": {"train": {"patience": patience}}, "metrics": {"epochs": epochs, "final": {}}}
        (tmp_path / "record.json").write_text(json.dumps(record))
        assert results.final_of(tmp_path)["validation"]["mAP"]["total"] == expected


def test_a_grid_runs_and_what_is_done_is_not_run_again(small, tmp_path):
    grid = [cell for cell in plans.cells(small, "small") if cell.seed == 0 and cell.setting.label == "PPL"]
    ended = []
    assert runner.run(grid, tmp_path, jobs=2, threads=1, on_end=lambda *what: ended.append(what)) == {}
    assert len(ended) == 2
    assert all(runner.is_done(tmp_path / cell.name) for cell in grid)
    alone = run(compose(None, list(grid[0].changes), seed=0), tmp_path / "alone")
    shared = results.final_of(tmp_path / grid[0].name)  # sharing a process changes nothing
    assert alone["metrics"]["final"] | {"validation": alone["metrics"]["epochs"][-1]["validation"]} == shared
    runner.run(grid, tmp_path, jobs=2, threads=1, on_end=lambda *what: ended.append(what))
    assert len(ended) == 2


def test_a_row_may_read_out_the_model_of_another_one(tmp_path):
    shifted = "  - {label: shifted, set: {method.name: logit_shift}, trained_as: AN}"
    (tmp_path / "grid.yaml").write_text(PLAN.replace("seeds: [0, 1]", f"{shifted}\nseeds: [0]"))
    plan = plans.load(str(tmp_path / "grid.yaml"))
    grid = [cell for cell in plans.cells(plan, "small") if cell.setting.label == "PPL" and cell.method.label != "BCE"]
    assert runner.run(grid, tmp_path, jobs=1, threads=1, on_end=lambda *what: None) == {}
    plain, moved = (load_file(tmp_path / cell.name / "logits.safetensors")["test"] for cell in grid)
    apart = moved - plain
    assert apart.abs().max() > 0.1
    assert (apart - apart[0]).abs().max() < 1e-5  # one number for each label
    weights = [load_file(tmp_path / cell.name / "model.safetensors") for cell in grid]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])


def test_data_that_is_not_there_is_said_once_and_the_rest_is_run(tmp_path):
    absent = "data:\n  - {label: VOC, set: {data.name: voc_mlt, data.root: nowhere}}"
    (tmp_path / "grid.yaml").write_text(PLAN.replace("data:", absent, 1).replace("[0, 1]", "[0]"))
    (tmp_path / "nowhere").mkdir()
    command = [sys.executable, "-m", "raretag", "bench", "grid.yaml", "--paired"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("VOC was not run: voc_mlt needs") == 1
    assert "host.robots.ox.ac.uk" in "".join(done.stderr.split())
    assert "### digits, all" in done.stdout
    assert "### VOC" not in done.stdout
    assert "| mAP - BCE, over items |" in done.stdout


def test_an_estimate_tells_what_cannot_run_and_trains_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("RARETAG_DATA", raising=False)
    (tmp_path / "grid.yaml").write_text(
        PLAN.replace("  - {label: digits", "  - {label: pascal, set: {data.name: voc_mlt}}\n  - {label: digits")
    )
    grid, told = plans.cells(plans.load(str(tmp_path / "grid.yaml")), "small", ["BCE"]), []
    sentence = estimate(grid, tmp_path / "runs", 1, told.append, limit=300).sentence(grid, len(grid), jobs=1)
    assert sum("pascal: voc_mlt is read from a folder" in line for line in told) == 1
    assert "8 of 8 runs to do" in sentence
    assert "4 runs by two timed steps (without evaluation: up to twice as long)" in sentence
    assert "4 runs cannot run here" in sentence
    assert not (tmp_path / "runs").exists()


def test_an_estimate_takes_what_ended_runs_took_and_guesses_when_the_time_is_up(small, tmp_path):
    grid = plans.cells(small, "small")
    for cell in grid:
        if cell.method.label == "BCE" and cell.seed == 0:
            record(tmp_path / cell.name, 0.5)
            (tmp_path / cell.name / "metrics.jsonl").write_text('{"seconds": 40.0}\n{"seconds": 20.0}\n')
    left = [cell for cell in grid if not runner.is_done(tmp_path / cell.name)]
    found = estimate(grid, tmp_path, threads=1, limit=0.0)
    assert found.sentence(left, len(grid), jobs=2).splitlines() == [
        "6 of 8 runs to do, about 3 minutes with 2 jobs",
        "  2 runs by runs that have ended (within a fifth or so)",
        "  4 runs by runs like them (a guess: it may be several times as long)",
    ]


def test_a_run_that_cannot_run_counts_once_though_its_cost_is_known(small):
    grid = plans.cells(small, "small")
    found = Estimate(failed={grid[0].data.label: "absent"})
    for cell in grid:
        found.know(kind_of(cell), 60.0, READ)
    assert found.sentence(grid, len(grid), jobs=1).splitlines() == [
        "8 of 8 runs to do, how long they take is not known",
        "  8 runs cannot run here",
    ]


def test_a_method_that_does_the_same_has_a_difference_of_nothing(small, tmp_path):
    grid = [cell for cell in plans.cells(small, "small") if cell.setting.label == "all"]
    labels = LabelStore.from_dense(np.eye(3, dtype=np.int8).repeat(20, axis=0))
    right, wrong = 4.0 * torch.eye(3).repeat_interleave(20, 0), torch.arange(180.0).view(60, 3).cos()
    for cell in grid:
        (tmp_path / cell.name).mkdir()
        save_file({"test": right if cell.method.label == "AN" else wrong}, tmp_path / cell.name / "logits.safetensors")
        save_file(evidence.packed("test", labels.targets()), tmp_path / cell.name / evidence.FILE)
    better = results.item_differences(grid, tmp_path)["AN"]
    assert 0.3 < better.low < better.value < better.high < 1
    for cell in grid:
        save_file({"test": right}, tmp_path / cell.name / "logits.safetensors")
    same = results.item_differences(grid, tmp_path)["AN"]
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    for cell in grid:
        if cell.method.label == "BCE":
            (tmp_path / cell.name / "logits.safetensors").unlink()
    assert results.item_differences(grid, tmp_path) == {}  # never against another than the first


def test_two_runners_do_not_share_a_folder(small, tmp_path):
    lock = runner.lock_folder(tmp_path)
    with pytest.raises(UserError, match="another `raretag bench` is running"):
        runner.run(plans.cells(small, "small"), tmp_path, jobs=1, threads=1, on_end=lambda *what: None)
    lock.close()
    runner.lock_folder(tmp_path).close()


def test_a_cell_that_fails_is_named_with_its_reason(tmp_path):
    (tmp_path / "bad.yaml").write_text(
        PLAN.replace("binary_cross_entropy", "binary_crossentropy").replace("[0, 1]", "[0]")
    )
    command = [sys.executable, "-m", "raretag", "bench", "bad.yaml", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 2
    assert "did you mean 'binary_cross_entropy'" in done.stderr
    assert "| AN | **" in done.stdout  # the others were run all the same


def test_rare_labels_of_several_sets_are_compared_together(tmp_path):
    text = PLAN.replace("seeds: [0, 1]", "seeds: [0, 1]\npools: {both: [digits, others]}")
    text = text.replace("settings:", "  - {label: others, set: {data.largest: 30}}\nsettings:")
    (tmp_path / "grid.yaml").write_text(text)
    plan = plans.load(str(tmp_path / "grid.yaml"))
    random = np.random.default_rng(0)
    expected = {}
    for cell in plans.cells(plan, "small"):
        precision = random.random(4).tolist()
        precision[3] = None  # cannot be measured
        record = {"metrics": {"final": {"per_class": {"average_precision": precision}}}, "groups": {"tail": [1, 2, 3]}}
        (tmp_path / cell.name).mkdir()
        (tmp_path / cell.name / "record.json").write_text(json.dumps(record))
        if cell.setting.label == "PPL":
            sign = 1 if cell.method.label == "AN" else -1
            for label in (1, 2):
                key = cell.data.label, label
                expected[key] = expected.get(key, 0.0) + sign * precision[label] / 2
    cells = [cell for cell in plans.cells(plan, "small") if cell.setting.label == "PPL"]
    assert sorted(results.label_differences(cells, tmp_path, "tail")["AN"]) == pytest.approx(sorted(expected.values()))
    value = f"{100 * np.mean(list(expected.values())):+.1f}"
    assert f"{value} [" in table.pooled(plan, "small", tmp_path).splitlines()[4]
