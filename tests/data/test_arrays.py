"""Data sets from objects in Python: arrays, DataFrames, shares of parts."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from scipy import sparse

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import DataSource
from raretag.data import from_arrays, from_table, from_torch
from support.written_tables import csv, labelled

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.tile([[1, 0], [0, 1], [1, 1], [0, 0]], (10, 1))


class Frame:
    """A stand-in for a DataFrame of pandas, which is not needed here."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), columns

    def __len__(self):
        return len(self.values)

    def to_numpy(self, dtype=None, na_value=None):
        filled = [[na_value if value is None else value for value in row] for row in self.values.tolist()]
        return np.array(filled, dtype)


class OtherFrame(Frame):
    """As polars has them: no arguments."""

    def to_numpy(self):
        return self.values


class Column:
    """A stand-in for a Series."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def to_numpy(self):
        return np.array(self.values, object)


@pytest.mark.parametrize("kind", [Frame, OtherFrame])
def test_the_columns_of_data_frames_are_the_names(kind):
    plain = from_arrays(X, Y)
    data = from_arrays(kind(X, ["a", "b", "c"]), kind(Y, ["cat", "dog"]))
    assert data.train.labels.names == ("cat", "dog")
    assert np.array_equal(data.train.labels.dense(), plain.train.labels.dense())
    rows = torch.arange(len(data.test))
    assert torch.equal(data.test.inputs.batch(rows), plain.test.inputs.batch(rows))
    assert data.train.inputs.describe()["names"] == ["a", "b", "c"]
    assert data.notes["columns"] == {"features": ["a", "b", "c"]}


def test_names_that_are_given_win_over_columns():
    frame = Frame(Y, ["cat", "dog"])
    assert from_arrays(X, frame, label_names=["x", "y"]).train.labels.names == ("x", "y")
    assert from_arrays(X, Y, label_names=["x", "y"]).train.labels.names == ("x", "y")
    assert from_arrays(X, Y, names=["x", "y"]).train.labels.names == ("x", "y")
    pairs = torch.utils.data.TensorDataset(torch.as_tensor(X), torch.zeros(40))
    assert from_torch(pairs, frame).train.labels.names == ("cat", "dog")


def test_what_is_missing_in_a_data_frame_is_unknown_or_refused():
    gaps = Y.astype(object)
    gaps[::4, 0] = None
    data = from_arrays(X, Frame(gaps, ["cat", "dog"]))
    assert data.train.labels.observed_share < 1
    with pytest.raises(UserError, match="item 0 holds a blank"):
        from_arrays(Frame(np.where(np.arange(3) == 1, None, X), list("abc")), Y)
    with pytest.raises(UserError, match=r"columns a, b.*more than numbers"):
        from_arrays(Frame([["x", 1]] * 40, ["a", "b"]), Y)


@pytest.mark.parametrize("column", [Column, np.array, list])
def test_a_column_of_texts_is_texts(column):
    texts, tags = ["a red car", "a blue bird"] * 10, [["car"], ["bird"]] * 10
    data = from_arrays(column(texts), Column(tags) if column is Column else tags)
    assert "red" in data.train.inputs.describe()["parts"]["words"]["words"]
    assert data.train.labels.names == ("bird", "car")


def sizes(data):
    return [len(part) for part in (data.train, data.validation, data.test)]


def test_shares_of_parts():
    assert sizes(from_arrays(X, Y)) == [28, 4, 8]
    assert sizes(from_arrays(X, Y, test=0.0)) == [36, 4, 0]
    assert sizes(from_arrays(X, Y, validation=0.25, test=0.25)) == [20, 10, 10]
    split = {"train": range(20), "test": range(20, 40)}
    assert sizes(from_arrays(X, Y, split=split, validation=0.25)) == [15, 5, 20]


def test_an_empty_test_part_has_the_labels_and_no_items():
    data = from_arrays(X, Y, test=0.0, label_names=["cat", "dog"])
    assert data.test.labels.names == ("cat", "dog")
    assert data.test.inputs.batch(torch.arange(0)).shape == (0, 3)
    assert data.test.labels.targets().value.shape == (0, 2)
    assert data.notes["made"] == ["validation"]


def test_without_validation_the_training_items_stand_in():
    data = from_arrays(X, Y, validation=0.0, test=0.5)
    assert sizes(data) == [20, 20, 20]
    assert data.validation.labels == data.train.labels
    assert any("training items themselves" in line for line in data.remarks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": 1.0}, r"test=1\.0; expected the share"),
        ({"validation": -0.1}, "expected the share"),
        ({"validation": 0.5, "test": 0.5}, "leave some for training"),
        ({"test": 0.95}, "leave some for training"),
        ({"test": 0.1, "split": ["train"] * 30 + ["test"] * 10}, "the split names items of that part"),
    ],
)
def test_shares_that_cannot_be_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        from_arrays(X, Y, **options)


def test_a_scipy_matrix_of_inputs_stays_sparse():
    data = from_arrays(sparse.csr_array(X * (X > 1)), sparse.csr_array(Y), label_names=["cat", "dog"])
    assert data.train.inputs.batch(torch.arange(2)).shape == (2, 3)


def test_a_table_in_one_call(write):
    data = from_table(write("a.csv", csv()), labels="tags", seed=3)
    assert data.notes["seed"] == 3
    assert len(labelled(data)) == 20
    with pytest.raises(UserError, match="did you mean 'labels'"):
        from_table(write("a.csv", csv()), lables="tags")


def test_every_name_stands_for_a_source():
    assert all(issubclass(registry.find("data", name), DataSource) for name in registry.names("data"))


@pytest.mark.parametrize("items", [1, 3, 6])
def test_the_number_of_items_that_an_error_asks_for_suffices(items):
    def made(count):
        return from_arrays(np.ones((count, 2), np.float32), np.ones((count, 1)), validation=0.1, test=0.1)

    with pytest.raises(UserError, match="too few to make the parts") as refusal:
        made(items)
    enough = int(re.search(r"expected (\d+) or more", str(refusal.value))[1])
    assert all(len(part) for part in made(enough).parts.values())
    with pytest.raises(UserError, match="too few"):
        made(enough - 1)
