"""Hidden labels: eq. 2-4 of arXiv:2308.00166, drawn so that nothing but the seed, the item and the label matters."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.labels.hide import hide
from raretag.labels.store import LabelStore
from support.paths import DATA

NAN = float("nan")


@st.composite
def stores(draw: st.DrawFn) -> LabelStore:
    items, labels = draw(st.integers(0, 12)), draw(st.integers(1, 12))
    shares = draw(st.sampled_from([(0.3, 0.7, 0), (0.3, 0, 0.7), (0.2, 0.2, 0.6), (0.2, 0.7, 0.1)]))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    table = random.choice([1, 0, NAN], (items, labels), p=shares)
    return LabelStore.from_dense(table, ids=[f"item {i}" for i in range(items)])


def only_hides(before: NDArray[Any], after: NDArray[Any]) -> bool:
    return bool((np.isnan(after) | (after == before)).all())


@settings(deadline=None)
@given(stores(), st.floats(0, 1), st.integers(0, 5), st.booleans())
def test_eq_2_to_4_hold_and_labels_are_only_ever_hidden(
    store: LabelStore, keep: float, seed: int, at_least_one: bool
) -> None:
    full = store.dense()
    pal = hide(store, "pal", keep, seed, at_least_one).dense()
    ppl = hide(store, "ppl", keep, seed, at_least_one).dense()
    spl = hide(store, "spl", seed=seed).dense()
    assert hide(store, "none") == store
    assert hide(store, "fal") == store  # its old name
    for hidden in (pal, ppl, spl):
        assert only_hides(full, hidden)
    assert not (ppl == 0).any()  # (3)
    assert not (spl == 0).any()  # (4)
    assert ((spl == 1).sum(axis=1) == (full == 1).any(axis=1)).all()  # (4): one, where there was one
    assert ((pal == 1) == (ppl == 1)).all()  # the same draws decide about a positive
    if at_least_one:
        assert ((ppl == 1).any(axis=1) == (full == 1).any(axis=1)).all()
        lost = ~(hide(store, "ppl", keep, seed).dense() == 1).any(axis=1)
        assert np.array_equal(ppl[lost], spl[lost], equal_nan=True)  # saved is the smallest draw, which SPL keeps


@settings(deadline=None)
@given(stores(), st.sampled_from(["pal", "ppl"]), st.integers(0, 5))
def test_keep_is_a_probability_with_both_ends(store: LabelStore, setting: Any, seed: int) -> None:
    full = store.dense()
    everything = hide(store, setting, 1.0, seed).dense()
    expected = full if setting == "pal" else np.where(full == 1, full, NAN)
    assert np.array_equal(everything, expected, equal_nan=True)
    assert np.isnan(hide(store, setting, 0.0, seed).dense()).all()
    assert hide(store, setting, 0.0, seed, at_least_one=True) == hide(store, "spl", seed=seed)


@settings(deadline=None)
@given(stores(), st.sampled_from(["pal", "ppl"]), st.floats(0, 1), st.floats(0, 1))
def test_what_stays_at_a_small_share_stays_at_a_larger_one(store: LabelStore, setting: Any, a: float, b: float) -> None:
    less, more = (hide(store, setting, keep).dense() for keep in sorted((a, b)))
    assert only_hides(more, less)


@settings(deadline=None)
@given(stores(), st.sampled_from(["pal", "ppl", "spl"]), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_items_does_not_matter(store: LabelStore, setting: Any, at_least_one: bool, random: Any) -> None:
    order = list(range(len(store)))
    random.shuffle(order)
    keep = None if setting == "spl" else 0.5
    first = hide(store, setting, keep, 3, at_least_one).take(order)
    assert first == hide(store.take(order), setting, keep, 3, at_least_one)
    shard = order[: len(order) // 2]
    assert first.take(slice(0, len(shard))) == hide(store.take(shard), setting, keep, 3, at_least_one)


def test_without_ids_the_row_number_decides() -> None:
    table = np.ones((50, 6))
    plain = hide(LabelStore.from_dense(table), "ppl", 0.5)
    assert plain == hide(LabelStore.from_dense(table), "ppl", 0.5)
    assert plain != hide(LabelStore.from_dense(table), "ppl", 0.5, seed=1)
    assert len({tuple(row) for row in plain.lists()}) > 20  # rows differ


def within(found: float, trials: float, probability: float) -> bool:
    """Five standard deviations of a binomial: a right program fails once in two million."""
    return abs(found - trials * probability) < 5 * np.sqrt(trials * probability * (1 - probability)) + 1e-9


def test_shares_are_binomial_for_positives_and_negatives_alike() -> None:
    table = (np.random.default_rng(0).random((3000, 40)) < 0.2).astype(np.float32)
    store = LabelStore.from_dense(table)
    for keep in (0.1, 0.5, 0.9):
        pal = hide(store, "pal", keep, seed=1).dense()
        assert within((pal == 1).sum(), table.sum(), keep)
        assert within((pal == 0).sum(), (1 - table).sum(), keep)
        for label in range(40):
            assert within((pal[:, label] == 1).sum(), table[:, label].sum(), keep)


def test_the_single_positive_is_drawn_uniformly() -> None:
    store = LabelStore.from_lists([[1, 4, 5, 8]] * 8000, labels=9)
    counts = hide(store, "spl", seed=2).statistics().positives
    assert counts.sum() == 8000
    for label in (1, 4, 5, 8):
        assert within(float(counts[label]), 8000, 0.25)


@pytest.mark.parametrize("keep", [0.3, None])
def test_many_unknown_stay_listed_and_small(keep: float | None) -> None:
    """A store with a million labels is never made dense by hiding positives or listed negatives."""
    store = LabelStore.from_lists([[5, 900_000]] * 50, negatives=[[7, 8, 9]] * 50, labels=1_000_000)
    hidden = hide(store, "spl" if keep is None else "pal", keep)
    assert hidden.bytes <= store.bytes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("xal",), "no setting 'xal'"),
        (("pal",), "needs keep"),
        (("ppl", 1.5), "needs keep"),
        (("spl", 0.5), "has no share to choose"),
    ],
)
def test_mistakes_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        hide(LabelStore.from_lists([[0]]), *arguments)


def coco() -> LabelStore:
    data = DATA
    path = data / "coco" / "coco_train_full.txt.gz"
    if not path.exists():
        pytest.skip(f"needs the COCO label list {path}")
    with gzip.open(path, "rt") as file:
        lines = [line.strip().partition(",") for line in file]
    return LabelStore.from_lists(
        [[int(i) for i in labels.split()] for _, _, labels in lines], ids=[n for n, _, _ in lines]
    )


def test_coco_keeps_as_many_labels_as_the_definition_says() -> None:
    store = coco()
    sizes = np.array([len(row) for row in store.lists()])
    assert (len(store), store.labels, sizes.sum()) == (82081, 80, 241035)
    assert sum(map(len, hide(store, "spl").lists())) == 82081  # as many as the published list of single labels

    plain = hide(store, "ppl", 0.4).lists()
    assert within(sum(map(len, plain)), 241035, 0.4)
    alone = hide(store, "ppl", 0.4, at_least_one=True).lists()
    rescued = sum(not row for row in plain)
    assert min(map(len, alone)) == 1
    assert sum(map(len, alone)) == sum(map(len, plain)) + rescued
    empty = 0.6**sizes  # the chance that an image loses all
    assert abs(rescued - empty.sum()) < 5 * np.sqrt((empty * (1 - empty)).sum())


def test_the_old_name_of_none_is_read_and_not_written():
    assert compose(None, ["data.hide=fal"]).data.hide == compose(None, []).data.hide == "none"
