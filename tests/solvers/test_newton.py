"""Newton's minimum is scikit-learn's, for both losses, and what weighs nothing changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from raretag.solvers.newton import Products, loss_weights, minimise


def problem(items=150, width=7, labels=3, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(items, width)) * (random.random((items, width)) < 0.5)
    y = (x @ random.normal(size=(width, labels)) + random.normal(size=(items, labels)) > 1.5).astype(np.float64)
    return x, y


def solved(x, y, strength, loss="logistic", counted=None, rows=None, balanced=True, **options):
    y = torch.from_numpy(y)
    weight = loss_weights(y, counted, rows, balanced=balanced)
    return minimise(Products(x), y, weight, strength, loss, tolerance=1e-9, **options)


@pytest.mark.parametrize("strength", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("form", [torch.from_numpy, sparse.csr_array])
def test_logistic_loss_as_scikit_learn(strength, form):
    x, y = problem()
    theta, logits = solved(form(x), y, strength)
    for label in range(y.shape[1]):
        theirs = LogisticRegression(C=strength, class_weight="balanced", tol=1e-9, max_iter=5000).fit(x, y[:, label])
        assert np.allclose(theta[:-1, label], theirs.coef_[0], atol=1e-4)
        assert np.allclose(logits[:, label], theirs.decision_function(x), atol=1e-3)


@pytest.mark.parametrize("strength", [0.01, 1.0])
@pytest.mark.parametrize("form", [torch.from_numpy, sparse.csr_array])
def test_squared_hinge_as_scikit_learn(strength, form):
    x, y = problem()
    theta, logits = solved(form(x), y, strength, "hinge", balanced=False)
    for label in range(y.shape[1]):  # their bias is shrunk like a weight, unless it stands on a large column
        theirs = LinearSVC(C=strength, tol=1e-10, intercept_scaling=300, max_iter=200_000).fit(x, y[:, label])
        assert np.allclose(theta[:-1, label], theirs.coef_[0], atol=2e-3)
        assert np.allclose(logits[:, label], theirs.decision_function(x), atol=5e-3)


def test_items_that_are_left_out_might_as_well_not_be_there():
    x, y = problem()
    rows = torch.arange(len(x)) % 3 > 0
    theta, logits = solved(torch.from_numpy(x), y, 1.0, rows=rows)
    alone, _ = solved(torch.from_numpy(x[rows]), y[rows], 1.0)
    assert torch.allclose(theta, alone, atol=1e-6)
    assert torch.allclose(logits, torch.from_numpy(x) @ theta[:-1] + theta[-1])  # but they get their logits


def test_entries_that_are_not_counted_might_as_well_not_be_there():
    x, y = problem(labels=1)
    counted = torch.from_numpy(y > 0) | (torch.arange(len(x)) % 2 == 0)[:, None]
    theta, _ = solved(torch.from_numpy(x), y, 1.0, counted=counted, balanced=False)
    kept = counted[:, 0].numpy()
    alone, _ = solved(torch.from_numpy(x[kept]), y[kept], 1.0, balanced=False)
    assert torch.allclose(theta, alone, atol=1e-6)


def test_a_side_that_is_empty_teaches_nothing():
    x, y = problem()
    y[:, 0], y[:, 1] = 0, 1
    theta, logits = solved(torch.from_numpy(x), y, 1.0)
    assert not theta[:, :2].any()
    assert not logits[:, :2].any()
    assert theta[:, 2].any()


def test_another_start_leads_to_the_same_place():
    x, y = problem()
    theta, _ = solved(torch.from_numpy(x), y, 3.0)
    near, _ = solved(torch.from_numpy(x), y, 1.0)
    again, _ = solved(torch.from_numpy(x), y, 3.0, start=near)
    assert torch.allclose(theta, again, atol=1e-6)


def test_both_sides_of_a_label_weigh_the_same():
    y = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
    assert loss_weights(y).flatten().tolist() == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    counted = torch.tensor([[True], [True], [False], [True]])
    assert loss_weights(y, counted).flatten().tolist() == pytest.approx([2, 1, 0, 1])
    rows = torch.tensor([True, True, True, False])
    assert loss_weights(y, counted, rows).flatten().tolist() == pytest.approx([1.5, 1.5, 0, 0])
