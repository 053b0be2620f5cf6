"""The label store: what goes in comes out, in whatever form, and mistakes are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.labels.counts import DENSE_UP_TO, count
from raretag.labels.store import LabelStore
from support.label_tables import NAN, equal, tables


def by_dense(s: LabelStore, names: tuple[str, ...], ids: list[str] | None) -> LabelStore:
    return LabelStore.from_dense(s.dense(), names, ids)


def by_sparse(s: LabelStore, names: tuple[str, ...], ids: list[str] | None) -> LabelStore:
    return LabelStore.from_sparse(s.sparse(), s.absent, names, ids)


def by_full_sparse(s: LabelStore, names: tuple[str, ...], ids: list[str] | None) -> LabelStore:
    """Every entry stored, and `absent` set to the value that the store would not choose."""
    row, column = np.indices(s.dense().shape)
    every = sparse.coo_array((s.dense().ravel(), (row.ravel(), column.ravel())), shape=s.dense().shape)
    return LabelStore.from_sparse(every, "negative" if s.absent == "unknown" else "unknown", names, ids)


def by_lists(s: LabelStore, names: tuple[str, ...], ids: list[str] | None) -> LabelStore:
    return LabelStore.from_lists(s.lists(), names, ids, negatives=s.negative_lists())


def by_names(s: LabelStore, names: tuple[str, ...], ids: list[str] | None) -> LabelStore:
    negatives = [[names[label] for label in row] for row in s.negative_lists()]
    return LabelStore.from_lists(s.name_lists(), names, ids, negatives=negatives, absent="unknown")


ROADS = [by_dense, by_sparse, by_full_sparse, by_lists, by_names]


@settings(deadline=None)
@given(tables())
def test_every_form_leads_to_every_form(table: NDArray[np.float32]) -> None:
    names = tuple(f"label {c}" for c in range(table.shape[1]))
    ids = [f"item {i}" for i in range(len(table))]
    store = LabelStore.from_dense(table, names, ids)
    assert equal(store.dense(), table)
    for first in ROADS:
        once = first(store, names, ids)
        assert once == store, first
        assert once.fingerprint() == store.fingerprint()
        for second in ROADS:
            assert equal(second(once, names, ids).dense(), table), (first, second)


@settings(deadline=None)
@given(tables())
def test_a_batch_holds_the_labels_of_its_rows(table: NDArray[np.float32]) -> None:
    store = LabelStore.from_dense(table)
    rows = np.random.default_rng(0).integers(0, max(len(table), 1), 5 if len(table) else 0)
    for selection in (rows, torch.from_numpy(rows), rows.tolist(), slice(None, None, 2), None):
        part = table if selection is None else table[selection]
        targets = store.targets(selection)
        assert targets.value.dtype == torch.float32
        assert equal(targets.observed.numpy(), ~np.isnan(part))
        assert equal(targets.positive.numpy(), (part == 1).astype(np.float32))
        assert equal(targets.negative.numpy(), (part == 0).astype(np.float32))
        if selection is not None:
            assert store.take(selection) == LabelStore.from_dense(part)


@settings(deadline=None)
@given(tables(), st.integers(0, 7))
def test_counts_are_those_of_a_loop_and_shards_add_up(table: NDArray[np.float32], cut: int) -> None:
    store = LabelStore.from_dense(table)
    statistics = store.statistics()
    together = np.zeros((store.labels, store.labels), np.int64)
    for row in table:
        for i in np.nonzero(row == 1)[0]:
            for j in np.nonzero(row == 1)[0]:
                together[i, j] += 1
    assert statistics.items == len(table)
    assert statistics.positives.tolist() == (table == 1).sum(axis=0).tolist()
    assert statistics.negatives.tolist() == (table == 0).sum(axis=0).tolist()
    assert statistics.cooccurrence is not None
    assert statistics.cooccurrence.tolist() == together.tolist()
    assert store.observed_share == pytest.approx((~np.isnan(table)).mean() if table.size else 0.0)

    sharded = store.take(slice(0, cut)).statistics() + store.take(slice(cut, None)).statistics()
    assert sharded.positives.tolist() == statistics.positives.tolist()
    assert sharded.negatives.tolist() == statistics.negatives.tolist()
    assert sharded.cooccurrence is not None
    assert sharded.cooccurrence.tolist() == together.tolist()


def test_pairs_of_very_many_labels_are_counted_on_request_and_sparse() -> None:
    labels = DENSE_UP_TO + 1
    shards = [LabelStore.from_lists(rows, labels=labels) for rows in ([[0, 4096], [3]], [[0, 4096], [0, 3]])]
    assert shards[0].statistics().cooccurrence is None
    assert count(shards[0], cooccurrence=False).cooccurrence is None
    together = (count(shards[0], cooccurrence=True) + count(shards[1], cooccurrence=True)).cooccurrence
    assert together is not None
    assert together.is_sparse
    assert together.is_coalesced()
    found = dict(zip(map(tuple, together.indices().T.tolist()), together.values().tolist(), strict=True))
    assert found == {(0, 0): 3, (0, 3): 1, (3, 0): 1, (3, 3): 2, (0, 4096): 2, (4096, 0): 2, (4096, 4096): 2}


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.0, 0, NAN], [0, 0, 1]]),
        np.array([[1, 0, -1], [0, 0, 1]], np.int8),
        np.array([[1, 0, -100], [0, 0, 1]], np.float16),
        torch.tensor([[1, 0, -100], [0, 0, 1]]),
        torch.tensor([[1, 0, NAN], [0, 0, 1]], dtype=torch.bfloat16, requires_grad=True),
        np.ma.masked_array([[1, 0, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 0]]),
    ],
)
def test_sentinels_of_all_types_are_unknown(array: Any) -> None:
    assert equal(LabelStore.from_dense(array).dense(), np.array([[1, 0, NAN], [0, 0, 1]], np.float32))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float64])
def test_types_without_sentinels_are_fully_observed(dtype: type) -> None:
    store = LabelStore.from_dense(np.array([[1, 0], [0, 0]], dtype))
    assert store.observed_share == 1
    assert store.lists() == [[0], []]


def test_the_smallest_form_is_chosen() -> None:
    random = np.random.default_rng(0)
    table = (random.random((400, 800)) < 0.01).astype(np.float32)
    full = LabelStore.from_dense(table)
    assert (full.entries.listed, full.entries.bits) == (None, None)
    only = LabelStore.from_dense(np.where(table == 1, table, NAN))
    assert (only.absent, only.entries.listed, only.entries.bits) == ("unknown", None, None)
    few_unknown = LabelStore.from_dense(np.where(random.random(table.shape) < 0.01, NAN, table))
    assert few_unknown.absent == "negative"
    assert few_unknown.entries.listed is not None
    few_negative = LabelStore.from_dense(np.where((random.random(table.shape) < 0.99) & (table == 0), NAN, table))
    assert few_negative.absent == "unknown"
    assert few_negative.entries.listed is not None
    half = LabelStore.from_dense(np.where(random.random(table.shape) < 0.5, NAN, table))
    assert half.entries.bits is not None
    assert half.bytes < table.size / 8 + 30_000
    for store in (full, only, few_unknown, few_negative, half):
        assert store.statistics().positives.tolist() == (store.dense() == 1).sum(axis=0).tolist()
        assert store.statistics().negatives.tolist() == (store.dense() == 0).sum(axis=0).tolist()
        for again in (by_full_sparse(store, store.names, None), store.take(slice(None))):
            assert again == store


def test_a_million_by_a_hundred_thousand_needs_no_dense_array() -> None:
    items, labels = 1_000_000, 100_000
    columns = np.sort(np.random.default_rng(0).integers(0, labels // 5, (items, 5)) + np.arange(5) * (labels // 5))
    matrix = sparse.csr_array(
        (np.ones(items * 5, np.int8), columns.ravel().astype(np.int32), np.arange(items + 1) * 5), shape=(items, labels)
    )
    store = LabelStore.from_sparse(matrix)
    assert store.bytes < 30_000_000
    assert store.take([999_999, 3]).lists() == [columns[999_999].tolist(), columns[3].tolist()]


def test_a_store_does_not_follow_the_array_it_was_made_of_and_cannot_be_written() -> None:
    matrix = sparse.csr_array(np.array([[1, 0], [0, 1]], np.float32))
    store = LabelStore.from_sparse(matrix)
    matrix.indices[0], matrix.data[1] = 1, 7
    assert store.lists() == [[0], [1]]
    with pytest.raises(ValueError, match="read-only"):
        store.entries.positives.indices[0] = 1
    with pytest.raises(AttributeError):
        store.given_names = ("a", "b")  # type: ignore[misc]


def test_the_users_matrix_is_left_as_it_is() -> None:
    matrix = sparse.csr_array((np.ones(3), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))  # not sorted
    assert LabelStore.from_sparse(matrix).lists() == [[0, 2], [1]]
    assert matrix.indices.tolist() == [2, 0, 1]


def test_names_and_ids_are_numbers_unless_given() -> None:
    plain = LabelStore.from_lists([[1], [0]])
    assert plain.names == ("0", "1")
    assert list(plain.ids) == [0, 1]
    assert plain == LabelStore.from_lists([[1], [0]], names=["0", "1"])
    assert plain != LabelStore.from_lists([[1], [0]], names=["a", "b"])
    assert plain != LabelStore.from_lists([[1], [0]], ids=["a", "b"])
    named = LabelStore.from_lists([["cat"], ["ant", "cat"], []], ids=["x", "y", "z"])
    assert named.names == ("ant", "cat")
    assert named.name_lists() == [["cat"], ["ant", "cat"], []]
    assert named.take([2, 0]).ids == ("z", "x")


def test_item_keys_follow_ids() -> None:
    store = LabelStore.from_lists([[0], [0], [0]], ids=["a", "b", "c"])
    assert store.take([2, 0]).item_keys().tolist() == store.item_keys()[[2, 0]].tolist()


def test_what_is_not_listed_is_negative_unless_negatives_are_listed() -> None:
    assert LabelStore.from_lists([[1, 0, 1], [0, 0]]).lists() == [[0, 1], [0]]  # twice is once
    assert equal(LabelStore.from_lists([[0, 0]], labels=2).dense(), np.array([[1, 0]], np.float32))
    assert equal(LabelStore.from_lists([[0]], negatives=[[1]], labels=3).dense(), np.array([[1, 0, NAN]], np.float32))
    assert equal(LabelStore.from_lists([[0]], absent="unknown", labels=2).dense(), np.array([[1, NAN]], np.float32))
    full = LabelStore.from_lists([[0]], negatives=[[1]], absent="negative", labels=3)
    assert equal(full.dense(), np.array([[1, 0, 0]], np.float32))


MISTAKES = {
    "row 1, column 0 holds 2.0": lambda: LabelStore.from_dense([[1, 0], [2.0, 0]]),
    "row 0, column 1 holds inf": lambda: LabelStore.from_dense(torch.tensor([[1, float("inf")]])),
    "row 0, column 1 holds -2": lambda: LabelStore.from_dense(np.array([[1, -2]])),
    r"shape \(3,\)": lambda: LabelStore.from_dense(np.zeros(3)),
    "expected bool, integers or floats": lambda: LabelStore.from_dense(np.array([["1", "0"]])),
    "from_sparse": lambda: LabelStore.from_dense(sparse.csr_array(np.eye(2))),
    "from_dense": lambda: LabelStore.from_sparse(np.eye(2)),
    "row 1, column 2 holds 3.0": lambda: LabelStore.from_sparse(sparse.csr_array(np.array([[0, 1, 0], [0, 0, 3.0]]))),
    "listed twice": lambda: LabelStore.from_sparse(sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(1, 2))),
    "absent is 'missing'": lambda: LabelStore.from_sparse(sparse.csr_array(np.eye(2)), absent="missing"),  # type: ignore[arg-type]
    "row 1 lists the label 'catt'.*nearest name is 'cat'": lambda: LabelStore.from_lists(
        [["dog"], ["dog", "catt"]], names=["cat", "dog"]
    ),
    "row 1 lists label 5; expected indices from 0 to 1": lambda: LabelStore.from_lists([[0], [5]], names=["a", "b"]),
    "row 0 lists label -1": lambda: LabelStore.from_lists([[-1]]),
    "row 2 lists 'a' of type str": lambda: LabelStore.from_lists([[0], [1], ["a"]]),
    "row 0 lists True of type bool": lambda: LabelStore.from_lists([[True]]),
    "row 1 lists 1.5 of type float": lambda: LabelStore.from_lists([[0], [1.5]]),  # type: ignore[list-item]
    "row 0 is 'cat'; expected a list": lambda: LabelStore.from_lists(["cat"]),
    "row 1 lists label 'b' as positive and as negative": lambda: LabelStore.from_lists(
        [["a"], ["b"]], negatives=[["b"], ["b"]]
    ),
    "one of each": lambda: LabelStore.from_lists([["a"]], negatives=[[0]]),
    "1 lists of positives and 2 of negatives": lambda: LabelStore.from_lists([[0]], negatives=[[], []]),
    "item id 'x' occurs 2 times": lambda: LabelStore.from_lists([[0], [0]], ids=["x", "x"]),
    "item id 7 is of type int": lambda: LabelStore.from_lists([[0]], ids=[7]),  # type: ignore[list-item]
    "2 item ids for 1 rows": lambda: LabelStore.from_lists([[0]], ids=["a", "b"]),
    "label name 'a' occurs 2 times": lambda: LabelStore.from_lists([[0]], names=["a", "a"]),
    "1 label names for 2 columns": lambda: LabelStore.from_dense(np.eye(2), names=["a"]),
    "the label names are the text 'ab'": lambda: LabelStore.from_dense(np.eye(2), names="ab"),
    "labels=3, but there are 1 names": lambda: LabelStore.from_lists([["a"]], labels=3),
    "no row 2; expected numbers from 0 to 1": lambda: LabelStore.from_dense(np.eye(2)).take([2]),
    "no row -1": lambda: LabelStore.from_dense(np.eye(2)).targets(torch.tensor([0, -1])),
    "expected a vector of row numbers": lambda: LabelStore.from_dense(np.eye(2)).targets(np.array([0.5])),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message: str) -> None:
    with pytest.raises(UserError, match=message):
        MISTAKES[message]()


def test_a_sampler_is_built_by_its_name_over_the_positives():
    store = LabelStore.from_lists([["a"]] * 5 + [["b"]] + [[]])
    assert np.array_equal(store.positives.toarray(), np.nan_to_num(store.dense()))
    ours = registry.build("sampling", "class_aware", {"run": 1}, positives=store.positives, seed=4)
    assert torch.equal(store.sampler("class_aware", seed=4, run=1).epoch(2), ours.epoch(2))
    with pytest.raises(UserError, match="did you mean 'class_aware'"):
        store.sampler("class_awar")
