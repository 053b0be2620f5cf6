"""Feature vectors come to one scale by the numbers of training items, and the model keeps those numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from raretag.config.settings import compose
from raretag.data.arrays import from_arrays
from raretag.data.dataset import TensorInputs
from raretag.data.inputs.features import Features
from raretag.engine.batches import build_fabric
from raretag.engine.prepare import prepare
from raretag.models import scaling
from raretag.models.scaling import resolve_rule

RANDOM = np.random.default_rng(0)
COUNTS = RANDOM.poisson(0.2, (60, 5)).astype(np.float32)
DENSE = RANDOM.normal(3, 2, (60, 5)).astype(np.float32)
LABELS = (RANDOM.random((60, 2)) < 0.5).astype(np.float32)


@pytest.fixture(autouse=True)
def five_columns_are_many(monkeypatch):
    monkeypatch.setattr(scaling, "WIDE", 5)


def test_short_rows_stay_as_they_are():
    assert resolve_rule("auto", TensorInputs(torch.as_tensor(DENSE[:, :4]))) == "raw"


def prepared(values, rule="auto"):
    config = compose(None, [f"data.prepare={rule}", "model.name=mlp", "model.layers=0"])
    return prepare(config, build_fabric(config.train), data=from_arrays(values, LABELS))


def seen(made, values):
    """What the first layer sees of some rows."""
    backbone = made.training.model.get_submodule("backbone")
    return backbone(torch.as_tensor(values)).numpy()


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (COUNTS, "counts"),
        (DENSE, "dense"),
        (DENSE * (COUNTS > 0), "dense"),
        (DENSE / np.linalg.norm(DENSE, axis=1, keepdims=True), "rows"),
        (np.zeros((4, 1, 6, 6), np.float32), "raw"),
    ],
    ids=["counts", "measurements", "sparse measurements", "rows of length 1", "images"],
)
def test_the_rule_follows_from_the_numbers(values, rule):
    values = values - 5 * (values == values.max()) if rule == "dense" else values
    assert resolve_rule("auto", TensorInputs(torch.from_numpy(np.asarray(values, np.float32)))) == rule


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_counts_become_log_counts_times_rarity_in_rows_of_one_length(form):
    made = prepared(form(COUNTS))
    rows = made.data.train.inputs.rows.numpy()
    rarity = np.log((1 + len(rows)) / (1 + (COUNTS[rows] > 0).sum(0))) + 1
    expected = np.log1p(COUNTS) * rarity
    expected /= np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-12)
    expected *= np.sqrt((COUNTS[rows] > 0).sum() / len(rows))
    assert made.config.data.prepare == "counts"
    assert np.allclose(seen(made, COUNTS), expected, atol=1e-6)


def test_rows_of_length_1_get_the_length_that_suits_a_network():
    values = DENSE / np.linalg.norm(DENSE, axis=1, keepdims=True)
    assert np.allclose(seen(prepared(values), values), values * np.sqrt(5), atol=1e-6)


def test_measurements_are_standardised_by_training_items_and_get_one_length():
    values = np.concatenate([DENSE + 1e4, np.full((60, 1), 7, np.float32)], 1)
    made = prepared(values)
    train = values[made.data.train.inputs.rows.numpy()].astype(np.float64)
    expected = np.zeros(values.shape)
    expected[:, :5] = (values[:, :5] - train[:, :5].mean(0)) / train[:, :5].std(0)
    expected *= np.sqrt(5) / np.linalg.norm(expected, axis=1, keepdims=True)  # the sixth column never changes
    assert np.allclose(seen(made, values), expected, atol=5e-3)


def test_raw_leaves_numbers_as_they_are_and_the_model_holds_no_scale():
    made = prepared(DENSE, "raw")
    assert np.array_equal(seen(made, DENSE), DENSE)
    assert not any("factor" in name or "rarity" in name for name in made.training.model.state_dict())


def test_what_was_learned_is_part_of_the_weights():
    names = set(prepared(DENSE).training.model.state_dict())
    assert {"backbone.mean", "backbone.factor"} <= names


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16])
def test_a_batch_of_features_is_a_copy_in_single_precision(dtype):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    batch = Features(values).batch(torch.tensor([3, 0]))
    assert batch.dtype == torch.float32
    assert batch.tolist() == [[9.0, 10.0, 11.0], [0.0, 1.0, 2.0]]
    batch.zero_()
    assert values[3].tolist() == [9, 10, 11]
