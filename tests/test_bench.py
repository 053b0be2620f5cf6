"""Plans, the runner that can be stopped, and the table."""

import json
import subprocess
import sys

import pytest

from raretag.bench import plan as plans
from raretag.bench import runner, table
from raretag.core.errors import UserError
from raretag.engine.config import compose

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


def test_the_grid_has_every_combination_once_and_names_tell_them_apart(small):
    grid = plans.cells(small, "small")
    assert len({cell.name for cell in grid}) == len(grid) == 8
    assert [cell.seed for cell in grid] == [0] * 4 + [1] * 4


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
    found = table.sections(small, "small", tmp_path)
    text = table.markdown(small, found)
    assert "| BCE | <u>41.0 ± 1.4</u> (50.0) | - |" in text
    assert "| AN | **61.0 ± 1.4** | - |" in text
    assert "| AN | - | - |" in text  # the setting that has not been run
    assert r"\textbf{61.0 $\pm$ 1.4}" in table.latex(small, found)
    assert '"digits' not in table.csv(small, found).splitlines()[0]
    assert table.csv(small, found).splitlines()[1].startswith('"all","BCE","mAP",0.410000')


def test_a_grid_runs_and_what_is_done_is_not_run_again(small, tmp_path):
    grid = [cell for cell in plans.cells(small, "small") if cell.seed == 0 and cell.setting.label == "PPL"]
    told = []
    assert runner.run(grid, tmp_path, jobs=2, threads=1, tell=lambda *what: told.append(what)) == []
    assert len(told) == 2
    assert all(runner.is_done(tmp_path / cell.name) for cell in grid)
    runner.run(grid, tmp_path, jobs=2, threads=1, tell=lambda *what: told.append(what))
    assert len(told) == 2


def test_a_cell_that_fails_is_named_with_its_reason(tmp_path):
    (tmp_path / "bad.yaml").write_text(
        PLAN.replace("binary_cross_entropy", "binary_crossentropy").replace("[0, 1]", "[0]")
    )
    command = [sys.executable, "-m", "raretag", "bench", "bad.yaml", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.returncode == 2
    assert "did you mean 'binary_cross_entropy'" in done.stderr
    assert "| AN | **" in done.stdout  # the others were run all the same
