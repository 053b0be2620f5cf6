"""Other libraries' classifiers as rows, what they are compared by, and what a run costs."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from raretag.bench import opponents, results, runner, table
from raretag.bench import plan as plans
from raretag.bench.peers import LinearSvc, Mlp
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.data.arrays import from_arrays
from raretag.solvers.regression import fold_precision
from support.runs import run


def arrays(items=240, width=40, seed=0):
    """Three labels that a line can tell, and one that two items have."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(items, width)).astype(np.float32)
    y = (x[:, :3] + 0.5 * random.normal(size=(items, 3)) > 0.8).astype(float)
    rare = np.zeros((items, 1))
    rare[[3, 9]] = 1
    return x, np.hstack([y, rare])


def data_of(seed=0):
    return from_arrays(*arrays(seed=seed), validation=0.0, test=0.3)


@pytest.mark.parametrize("name", ["LinearSvc", "Logistic", "Mlp"])
def test_a_peer_is_a_row_that_learns_scores_out_of_fold_and_has_thresholds(name, tmp_path):
    changes = [f"method.name=raretag.bench.peers:{name}", *(["head.width=128"] if name == "Mlp" else [])]
    found = run(compose(None, changes), tmp_path / "a", data=data_of())
    assert np.mean(found["metrics"]["final"]["per_class"]["average_precision"][:3]) > 0.5  # by chance: 0.2
    assert found["metrics"]["validation_from"] == "out of fold"
    assert found["fitted_on"]["thresholds"]["from"] == "out of fold"
    learned = found["method"]["learned"]
    tried = learned["held_out_mAP"]
    assert learned["out_of_fold_mAP"] == max(tried.values() if isinstance(tried, dict) else tried)


def test_the_linear_peer_is_scikit_learn_itself(tmp_path):
    x, y = arrays()
    solver = LinearSvc()
    theta = solver.theta(x.astype(np.float64), torch.from_numpy(y > 0), 0.1)
    own = LinearSVC(C=0.1, random_state=0).fit(x.astype(np.float64), y[:, 0])
    assert theta[0, :-1].numpy() == pytest.approx(own.coef_[0])
    assert float(theta[0, -1]) == pytest.approx(own.intercept_[0])


def test_a_perceptron_gives_the_same_for_sparse_and_dense_rows():
    from scipy import sparse

    from raretag.bench.peers import Perceptron

    x, y = arrays()
    x[x < 0.5] = 0
    positive = torch.from_numpy(y > 0)
    scores = []
    for rows in (torch.from_numpy(x), sparse.csr_array(x)):
        net = Perceptron(x.shape[1], 8, positive, Mlp(), 0)
        for _ in range(3):
            net.epoch(rows, positive, torch.arange(len(y)))
        scores.append(net.scores(rows, torch.arange(len(y))))
    assert torch.allclose(*scores, atol=1e-4)


def test_levels_of_folds_do_not_matter_to_the_precision_by_fold():
    positive = torch.tensor([[1], [0], [1], [0], [0], [0]]).bool()
    fold = torch.tensor([0, 0, 1, 1, 0, 1])
    z = torch.tensor([[2.0], [1.0], [102.0], [101.0], [0.0], [100.0]])  # right in each fold
    assert fold_precision(z, positive, fold) == 1.0
    z[2, 0] = 99.0  # the last of its fold
    assert fold_precision(z, positive, fold) == pytest.approx((1 + 1 / 3) / 2)
    alone = torch.tensor([[1], [0], [0], [0], [0], [0]]).bool()  # its fold's solution never saw a positive
    assert fold_precision(z, alone, fold) == 0.0


def test_a_library_that_is_not_there_is_named(monkeypatch):
    import sys

    from raretag.bench.peers import LibMultiLabel

    monkeypatch.setitem(sys.modules, "libmultilabel", None)
    with pytest.raises(UserError, match="pip install libmultilabel"):
        LibMultiLabel()


PLAN = """
title: a plan with opponents
data:
  - {label: digits, set: {data.largest: 20}}
methods:
  - {label: L, set: {method.name: logistic_regression}}
  - {label: SVM, set: {method.name: 'raretag.bench.peers:LinearSvc'}}
  - {label: ours, set: {method.name: blend, effort: quick}}
opponents: [L, SVM]
clocks: [L, SVM]
seeds: [0, 1]
metrics: {mAP: mAP.total}
costs: {CPU s: fit, MB: peak_memory_mb}
pools: {everything: [digits]}
budgets: {small: {}}
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "grid.yaml").write_text(PLAN)
    return plans.load(str(tmp_path / "grid.yaml"))


def write(folder, cell, out_of_fold, precisions, seconds=1.0, keeps=True):
    (folder / cell.name).mkdir()
    average = float(np.mean(precisions))
    final = {"mAP": {"total": average, "tail": average, "excluded": {"tail": 0}}}
    final |= {"per_class": {"average_precision": list(precisions)}} if keeps else {}
    final |= {"F1": {"total": 0.5}, "F1_tuned": {"total": 0.5}, "micro_F1": 0.5, "micro_F1_tuned": 0.5}
    record = {
        "metrics": {"final": final},
        "groups": {"tail": [0, 1]},
        "environment": {},
        "method": {"learned": {"out_of_fold_mAP": out_of_fold}},
        "cost": {"fit": seconds, "peak_memory_mb": 300.0},
    }
    (folder / cell.name / "record.json").write_text(json.dumps(record))


def test_folds_choose_an_opponent_for_each_seed_and_the_test_part_another(plan, tmp_path):
    out_of_fold = {("L", 0): 0.6, ("SVM", 0): 0.5, ("L", 1): 0.5, ("SVM", 1): 0.6}
    on_test = {"L": [0.2, 0.4], "SVM": [0.5, 0.5], "ours": [0.4, 0.6]}
    seconds = {"L": 2.0, "SVM": 6.0, "ours": 3.0}
    grid = plans.cells(plan, "small")
    for cell in grid:
        label = cell.method.label
        write(tmp_path, cell, out_of_fold.get((label, cell.seed)), on_test[label], seconds[label])
    first, folds, oracle = opponents.references(plan, grid, tmp_path)
    assert [cell.method.label for cell in first.cells.values()] == ["L", "L"]
    assert folds.names("digits", "as it is") == "L, SVM"
    assert oracle.names("digits", "as it is") == "SVM x 2"
    pooled = table.pooled(plan, "small", tmp_path)
    # per label, a mean over seeds: ours - (L, SVM) = (.2 - .1) / 2 and (.2 + .1) / 2
    assert "### everything, tail: AP - the opponent that folds choose, paired over labels" in pooled
    assert "| ours | **+10.0 [+5.0, +15.0]** (2 labels) |" in pooled
    assert "| ours | **+20.0 [+20.0, +20.0]** (2 labels) |" in pooled  # against L
    assert "| ours | +0.0 [-10.0, +10.0] (2 labels) |" in pooled  # against the best on test
    shown = opponents.against_opponents(plan, "small", tmp_path, table.points)
    assert "| digits, as it is | L, SVM | +20.0 | +10.0 | +0.0 | +0.0 | +0.0 | 1.5 | 0.5 |" in shown
    assert '"out_of_fold_mAP": 0.6' in table.jsonl(plan, "small", tmp_path)
    text = table.markdown(plan, results.sections(plan, "small", tmp_path))
    assert "| ours | <u>50.0 ± 0.0</u> | 3.0 | 300 |" in text


def test_a_mean_of_all_seeds_stands_before_the_interval_of_those_that_kept_what_it_takes(plan, tmp_path):
    on_test = {"L": [0.2, 0.4], "SVM": [0.1, 0.1], "ours": [0.4, 0.6]}
    for cell in plans.cells(plan, "small"):
        label, later = cell.method.label, cell.seed == 1
        precisions = [one + 0.1 * (later and label == "ours") for one in on_test[label]]
        write(tmp_path, cell, 0.5 if label == "L" else 0.4, precisions, keeps=not (later and label == "L"))
    pooled = table.pooled(plan, "small", tmp_path)
    assert "| ours | +25.0; where scores were kept: **+20.0 [+20.0, +20.0]** (2 labels) |" in pooled
    apart = results.Apart(0.2, 0.1, 0.3, (0,))
    assert opponents.with_interval((0.25, 2), apart, table.points) == "+25.0; seed 0: **+20.0 [+10.0, +30.0]**"
    assert opponents.with_interval((0.2, 1), apart, table.points) == "**+20.0 [+10.0, +30.0]**"


@pytest.mark.parametrize("name", ["opponents", "clocks"])
def test_opponents_and_clocks_must_be_methods_of_the_plan(name, tmp_path):
    (tmp_path / "grid.yaml").write_text(PLAN.replace(f"{name}: [L, SVM]", f"{name}: [L, LinearSVC]"))
    with pytest.raises(UserError, match=f"{name} has 'LinearSVC'"):
        plans.load(str(tmp_path / "grid.yaml"))


def test_a_run_of_a_plan_with_costs_has_a_process_of_its_own(plan, tmp_path):
    grid = [cell for cell in plans.cells(plan, "small") if cell.seed == 0 and cell.method.label != "ours"]
    assert runner.run(grid, tmp_path, jobs=1, threads=1, on_end=lambda *what: None, alone=True) == {}
    for cell in grid:
        cost = results.record_of(tmp_path / cell.name)["cost"]
        assert cost["cpu_seconds"] == pytest.approx(cost["load"] + cost["fit"], abs=0.02)
        assert cost["load"] > 0  # the data is loaded by the run, not shared
        assert cost["peak_memory_mb"] > 50
        assert cost["decide"] >= 0
