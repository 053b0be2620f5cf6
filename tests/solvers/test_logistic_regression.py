"""Balanced logistic regression is what scikit-learn finds, and a run like any other."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from raretag.config.settings import compose
from raretag.core.targets import Targets
from raretag.data.arrays import from_arrays
from raretag.metrics.precision_curve import average_precision
from raretag.solvers.regression import mean_precision, solved
from support.runs import run


def problem(items=120, width=6, labels=3):
    random = np.random.default_rng(0)
    x = random.normal(size=(items, width)) * (random.random((items, width)) < 0.5)
    y = (x @ random.normal(size=(width, labels)) + random.normal(size=(items, labels)) > 1.2).astype(np.float64)
    return x, y


@pytest.mark.parametrize("strength", [0.1, 30.0])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_the_minimum_is_that_of_scikit_learn(strength, form):
    x, y = problem()
    features = torch.from_numpy(x) if form == "dense" else sparse.csr_array(x)
    theta = solved(features, torch.from_numpy(y), strength, tolerance=1e-8).numpy()
    for label in range(y.shape[1]):
        fitted = LogisticRegression(C=strength, class_weight="balanced", tol=1e-8, max_iter=2000).fit(x, y[:, label])
        assert np.allclose(theta[label, :-1], fitted.coef_[0], atol=2e-4)
        assert np.allclose(theta[label, -1], fitted.intercept_[0], atol=2e-4)


def test_a_label_without_positives_is_unlikely_everywhere_and_disturbs_nobody():
    x, y = problem()
    alone = solved(torch.from_numpy(x), torch.from_numpy(y), 1.0, tolerance=1e-8)
    y = np.concatenate([y, np.zeros((len(y), 1))], 1)
    theta = solved(torch.from_numpy(x), torch.from_numpy(y), 1.0, tolerance=1e-8)
    assert (theta[-1, :-1] == 0).all()
    assert theta[-1, -1] < -4
    assert torch.allclose(theta[:-1], alone, atol=1e-6)


def test_folds_are_judged_by_average_precision():
    z, y = torch.randn(40, 3), (torch.rand(40, 3) < 0.3).float()
    expected = average_precision(z, Targets(y, torch.ones(40, 3, dtype=torch.bool))).mean()
    assert mean_precision(z, y) == pytest.approx(float(expected), abs=1e-6)


def test_a_run_writes_what_every_run_writes_and_says_the_strength_it_found(tmp_path):
    x, y = problem(200)
    y[::7, 0] = np.nan
    config = compose(None, ["method.name=logistic_regression", "data.prepare=raw"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = run(config, tmp_path / "a", data=from_arrays(x, y))
    assert {"record.json", "logits.safetensors", "evidence.safetensors", "model.safetensors", "card.json"} <= {
        path.name for path in (tmp_path / "a").iterdir()
    }
    stored = json.loads((tmp_path / "a" / "record.json").read_text())
    assert stored["method"]["learned"]["strength"] > 0
    assert len(stored["metrics"]["epochs"]) == 1
    assert record["metrics"]["final"]["mAP"]["total"] > 0.5
    again = run(config, tmp_path / "a", data=from_arrays(x, y), resume=True)
    assert again["metrics"]["final"] == record["metrics"]["final"]
