"""Rows that are sparse in the data reach a solver sparse, with the numbers that dense rows would have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from scipy import sparse

from raretag.config.settings import Named
from raretag.core.targets import LabelStatistics
from raretag.data.dataset import Items, Joined, Selected, TensorInputs, sparse_batch
from raretag.data.inputs.features import Features
from raretag.engine.batches import features_of
from raretag.labels.store import LabelStore
from raretag.models.assemble import build_model
from raretag.models.scaling import learn_scale, resolve_rule
from raretag.solvers.learners import gathered

X = sparse.random_array((60, 40), density=0.1, format="csr", random_state=np.random.default_rng(0), dtype=np.float32)
LABELS = LabelStore.from_lists([[row % 3] for row in range(60)])


def model_for(rule, inputs):
    model = build_model(
        backbone=Named(name="mlp", layers=0),
        head=Named(name="linear"),
        branches=Named(name="single"),
        scaling=rule,
        shape=(40,),
        statistics=LabelStatistics.of_counts([20, 20, 20], items=60),
    )
    learn_scale(model, inputs)
    return model


@pytest.mark.parametrize("rule", ["rows", "counts", "raw"])
def test_sparse_and_dense_inputs_give_the_same_features(rule):
    thin, full = Features(X), TensorInputs(torch.from_numpy(X.toarray()))
    found = [
        list(features_of(model_for(rule, inputs), Items(inputs, LABELS), Fabric(), 16, keep_sparse=True))
        for inputs in (thin, full)
    ]
    assert all(sparse.issparse(x) for x, _ in found[0])
    ours, theirs = (gathered(iter(one))[0] for one in found)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("values", [X, X.sign(), sparse.csr_array(X * -1)], ids=["amounts", "ones", "negative"])
def test_the_rule_does_not_depend_on_how_numbers_are_held(values):
    full = TensorInputs(torch.from_numpy(values.toarray()))
    assert resolve_rule("auto", Features(values)) == resolve_rule("auto", full)


def test_a_rule_that_fills_zeros_gives_dense_features():
    inputs = Features(X)
    x, _ = next(features_of(model_for("dense", inputs), Items(inputs, LABELS), Fabric(), 60, keep_sparse=True))
    assert isinstance(x, torch.Tensor)


def test_selected_and_joined_rows_stay_sparse():
    rows = torch.tensor([5, 63, 2, 61, 59])
    both = Joined(Selected(Features(X), torch.arange(60)), Features(X[:10]))
    np.testing.assert_array_equal(sparse_batch(both, rows).toarray(), both.batch(rows).numpy())
    assert sparse_batch(Joined(Features(X), TensorInputs(torch.zeros(2, 40))), rows) is None


def test_sparse_rows_that_come_twice_are_found():
    twice = sparse.csr_array(sparse.vstack([X, X[:7]]))
    items = Items(Features(twice), LabelStore.from_lists([[0]] * 67))
    dense = Items(TensorInputs(torch.from_numpy(twice.toarray())), LabelStore.from_lists([[0]] * 67))
    assert items.duplicates() == dense.duplicates() >= 7
