"""Where a solver scores items out of fold, every item teaches, and nothing is measured on items that taught it."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.solver import Solver
from raretag.core.targets import Targets
from raretag.data.arrays import from_arrays
from raretag.runs.run import open_run
from raretag.serve.retune import retune
from support.runs import Calls, run


class Ridge(Solver):
    """Least squares that can learn by heart, with the scores of 4 folds."""

    cross_fits = True

    def __init__(self, penalty=1e-6, gives=True):
        self.penalty, self.gives, self.seen = penalty, gives, 0

    def weights(self, x, y):
        return torch.linalg.solve(x.T @ x + self.penalty * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)

    def solve(self, features, head, listener):
        blocks = list(features())
        x = torch.cat([block for block, _ in blocks]).double()
        x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
        y = torch.cat([2 * targets.positive.double() - 1 for _, targets in blocks])
        self.seen = len(x)
        w = self.weights(x, y)
        classify = next(part for part in head.modules() if isinstance(part, torch.nn.Linear))
        with torch.no_grad():
            classify.weight.copy_(w[:-1].T)
            classify.bias.copy_(w[-1])
        held_out = torch.zeros(len(x), y.shape[1])
        fold = torch.arange(len(x)) % 4
        for k in range(4):
            held_out[fold == k] = (x[fold == k] @ self.weights(x[fold != k], y[fold != k])).float()
        return held_out if self.gives else None

    def vital_signs(self):
        return {}


def noise(items=120, width=200, labels=4):
    """Features that allow learning by heart, and labels that have nothing to do with them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(items, width)).astype(np.float32)
    return x, (random.random((items, labels)) < 0.3).astype(float)


def signal(items=300, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(items, 5)).astype(np.float32)
    return x, (x[:, :3] + 0.5 * random.normal(size=(items, 3)) > [0.5, 1.0, 1.5]).astype(float)


def table(tmp_path, split=None, items=300):
    x, y = signal(items)
    path = tmp_path / "mine.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *"abcde", "labels", *(["split"] if split else [])])
        for row, (values, labels) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
            names = ";".join(name for name, there in zip(("one", "two", "three"), labels, strict=True) if there)
            rows.writerow([f"i{row}", *values, names, *([split[row]] if split else [])])
    return path


PLAIN = ["data.prepare=raw"]


@pytest.mark.parametrize("gives", [True, False])  # what the solver does not give, the engine finds by solving on folds
def test_what_was_learned_by_heart_is_not_measured(tmp_path, gives):
    x, y = noise()
    solver = Ridge(gives=gives)
    found = run(compose(None, PLAIN), tmp_path / "run", data=from_arrays(x, y, test=0.0, validation=0.0), method=solver)
    assert solver.seen == 120
    metrics = found["metrics"]
    assert metrics["validation_from"] == "out of fold"
    assert metrics["final"]["measured_on"] == "out of fold"
    assert metrics["final"]["mAP"]["total"] < 0.5  # by heart it would be 1
    assert metrics["epochs"][0]["validation"]["mAP"]["total"] == metrics["final"]["mAP"]["total"]
    assert metrics["final"]["F1_tuned"]["total"] < 0.6
    assert found["fitted_on"] == {
        "model": {"parts": ["train"], "items": 120},
        "thresholds": {"from": "out of fold", "items": 120},
        "metrics": {"from": "out of fold", "items": 120},
    }


def test_a_file_without_parts_is_learned_whole(tmp_path):
    messages = []
    config = compose(None, PLAIN, str(table(tmp_path)))
    found = run(config, tmp_path / "run", method=Ridge(1.0), message=messages.append)
    assert found["data"]["items"] == {"train": 300, "validation": 300, "test": 0}
    assert found["metrics"]["final"]["mAP"]["total"] > 0.7
    assert found["tuned"]["fitted_to"] == "out of fold"
    assert any("each item scored by a model that was not fitted to it" in line for line in messages)
    assert not any("too optimistic" in line for line in messages)
    assert any(line.startswith("no validation part: all 300 training items are scored") for line in messages)
    opened = open_run(tmp_path / "run")
    assert opened.data is not None
    assert opened.data.validation is opened.data.train
    before = found["thresholds"]
    assert retune(tmp_path / "run").thresholds == pytest.approx(before)
    assert max(retune(tmp_path / "run", goal="recall", wanted=0.9).thresholds) < 1


def test_a_test_part_is_dealt_if_it_is_wanted(tmp_path):
    config = compose(None, PLAIN, str(table(tmp_path)), data__test=0.2)
    found = run(config, tmp_path / "run", method=Ridge(1.0))
    assert found["data"]["items"] == {"train": 240, "validation": 240, "test": 60}
    assert "measured_on" not in found["metrics"]["final"]
    assert found["fitted_on"]["metrics"] == {"from": "test items", "items": 60}
    assert found["fitted_on"]["thresholds"] == {"from": "out of fold", "items": 240}
    assert found["metrics"]["final"]["micro_F1_tuned"] > 0.5


@pytest.mark.parametrize("use_all", [True, False])
def test_validation_items_of_a_file_teach_if_they_may(tmp_path, use_all):
    split = ["train"] * 200 + ["validation"] * 60 + ["test"] * 40
    config = compose(None, [*PLAIN, f"train.use_all={use_all}"], str(table(tmp_path, split)))
    solver = Ridge(1.0)
    found = run(config, tmp_path / "run", method=solver)
    assert solver.seen == (260 if use_all else 200)
    assert found["data"]["items"]["test"] == 40
    assert found["fitted_on"]["model"]["parts"] == (["train", "validation"] if use_all else ["train"])
    assert found["metrics"]["validation_from"] == ("out of fold" if use_all else "validation items")
    assert found["fitted_on"]["thresholds"]["from"] == "out of fold"
    assert open_run(tmp_path / "run").data is not None  # the same items when it is loaded again


def test_data_in_memory_gives_its_validation_items_too(tmp_path):
    x, y = signal()
    solver = Ridge(1.0)
    found = run(compose(None, PLAIN), tmp_path / "run", data=from_arrays(x, y, test=0.2), method=solver)
    assert solver.seen == 240
    assert found["fitted_on"]["model"] == {"parts": ["train", "validation"], "items": 240}


def test_labels_are_hidden_from_all_items_that_teach(tmp_path):
    split = ["train"] * 200 + ["validation"] * 60 + ["test"] * 40
    config = compose(None, [*PLAIN, "data.hide=ppl", "data.keep=0.5"], str(table(tmp_path, split)))
    found = engine_run(config, tmp_path, Ridge(1.0))
    labels = found.data.train.labels
    assert len(labels) == 260
    statistics = labels.statistics(cooccurrence=False)
    assert int(statistics.negatives.sum()) == 0
    assert found.record.tuned["labels_without_negatives"] == 3
    assert found.record.metrics.final.mAP.total > 0.6  # of the test items, whose labels are whole


def engine_run(config, tmp_path, solver):
    from raretag.engine.run import run as engine

    return engine(config, tmp_path / "run", method=solver, listener=Calls())


def test_solvers_that_do_not_cross_fit_keep_their_validation_items(tmp_path):
    class Plain(Ridge):
        cross_fits = False

    found = run(compose(None, PLAIN, str(table(tmp_path))), tmp_path / "run", method=Plain(1.0, gives=False))
    assert found["data"]["items"] == {"train": 210, "validation": 30, "test": 60}
    assert found["metrics"]["validation_from"] == "validation items"
    assert found["fitted_on"]["thresholds"] == {"from": "validation items", "items": 30}


def test_logits_of_another_shape_are_refused(tmp_path):
    class Short(Ridge):
        def solve(self, features, head, listener):
            return super().solve(features, head, listener)[:-1]

    x, y = signal()
    with pytest.raises(UserError, match="gave out-of-fold logits"):
        run(compose(None, PLAIN), tmp_path / "run", data=from_arrays(x, y), method=Short())


def test_two_stores_with_unknown_labels_are_joined_as_they_are():
    random = np.random.default_rng(0)
    for shares in ((0.2, 0.8, 0.0), (0.2, 0.4, 0.4), (0.3, 0.0, 0.7)):
        for others in ((0.2, 0.8, 0.0), (0.1, 0.1, 0.8)):
            parts = [random.choice([1, 0, np.nan], (9, 5), p=p) for p in (shares, others)]
            data = from_arrays(
                np.zeros((18, 2)), np.concatenate(parts), split=["train"] * 9 + ["validation"] * 9, test=0.0
            )
            joined: Targets = data.all_teaching().train.labels.targets()
            expected = Targets.from_dense(np.concatenate(parts))
            assert torch.equal(joined.observed, expected.observed)
            assert torch.equal(joined.positive, expected.positive)


def test_the_report_of_a_run_without_a_test_part_examines_scores_out_of_fold(tmp_path):
    from raretag.report.doctor import examine
    from raretag.report.label_tables import label_table
    from raretag.report.page import page
    from raretag.report.runs import compare, study_of

    run(compose(None, PLAIN, str(table(tmp_path))), tmp_path / "run", method=Ridge(1.0))
    opened = open_run(tmp_path / "run")
    study = study_of(opened, "mine")
    assert study.test is not None
    assert len(study.test.p) == 300
    np.testing.assert_allclose(study.at_half.f1, study.final["per_class"]["f1"], atol=1e-6)  # the record's own numbers
    assert study.gain_of_thresholds is None  # they were tuned on these items
    assert compare([opened], [study], 100) is None
    words = " ".join(f"{finding.title} {finding.text}" for finding in examine(study)) + label_table(study, None)
    assert "training items, scored out of fold" in words
    assert "test" not in words
    shown = page([study], None, "")
    assert "Predictions of single items are not available" not in shown
    assert "F1*: at thresholds tuned on training items, scored out of fold" in shown
    assert "train 300</dd>" in shown  # no part is named that does not exist
