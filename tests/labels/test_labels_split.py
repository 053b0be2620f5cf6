"""Splits: exact sizes, every label in every part, unknown labels welcome."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.labels.repair import repair
from raretag.labels.split import Split, part_sizes, split, wishes
from raretag.labels.store import LabelStore

NAN = float("nan")
FRACTIONS = [(0.5, 0.5), (0.8, 0.2), (0.8, 0.1, 0.1), (0.25,) * 4, (0.96, 0.04), (1.0,), (1 / 3, 1 / 3, 1 / 3)]


@st.composite
def tables(draw: st.DrawFn) -> NDArray[np.float64]:
    items, labels = draw(st.integers(0, 60)), draw(st.integers(1, 12))
    shares = draw(st.sampled_from([(0.3, 0.7, 0), (0.1, 0.1, 0.8), (0.05, 0, 0.95), (0.2, 0.5, 0.3)]))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    return random.choice([1, 0, NAN], (items, labels), p=shares)


def lacking(table: NDArray[np.float64], result: Split) -> dict[int, int]:
    """Labels that some part has no positive of, by a loop."""
    positive = table == 1
    return {
        label: int(positive[:, label].sum())
        for label in range(table.shape[1])
        if any(not positive[rows, label].any() for rows in result.parts)
    }


@settings(deadline=None)
@given(tables(), st.sampled_from(FRACTIONS), st.integers(0, 3))
def test_every_item_is_in_one_part_and_parts_have_the_asked_sizes(
    table: NDArray[np.float64], fractions: tuple[float, ...], seed: int
) -> None:
    result = split(LabelStore.from_dense(table), fractions, seed)
    assert sorted(np.concatenate(result.parts).tolist()) == list(range(len(table)))
    for rows, fraction in zip(result.parts, fractions, strict=True):
        assert abs(len(rows) - fraction * len(table)) < 1
    assert result.impossible == lacking(table, result)


@settings(deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_sizes_add_up(items: int, weights: list[int]) -> None:
    fractions = [weight / sum(weights) for weight in weights]
    sizes = part_sizes(items, fractions)
    assert sum(sizes) == items
    assert all(abs(size - items * fraction) < 1 for size, fraction in zip(sizes, fractions, strict=True))


@settings(deadline=None)
@given(st.lists(st.integers(2, 8), min_size=1, max_size=8), st.integers(0, 10), st.integers(0, 5))
def test_items_of_one_label_reach_every_part_that_has_room(counts: list[int], empty: int, seed: int) -> None:
    """With one label an item there is a split whenever each part has room for all labels that have enough."""
    rows = [[label] for label, n in enumerate(counts) for _ in range(n)] + [[]] * empty
    result = split(LabelStore.from_lists(rows, labels=len(counts)), (0.5, 0.5), seed)
    assert min(map(len, result.parts)) >= len(counts)
    assert result.impossible == {}


@pytest.mark.parametrize("seed", [*range(40), 252, 260, 265])  # the last three need more than one shuffle
@pytest.mark.parametrize(("parts", "labels", "size"), [(2, 6, 3), (3, 6, 4), (4, 5, 5), (2, 2, 7)])
def test_labels_that_come_together_reach_every_part_where_such_a_split_exists(
    seed: int, parts: int, labels: int, size: int
) -> None:
    """Parts that hold all labels are made first, then mixed: a split exists."""
    random = np.random.default_rng(seed)
    table = random.random((parts, size, labels)) < 0.3
    for part in table:
        for label in range(labels):
            part[random.integers(size), label] |= not part[:, label].any()
    shuffled = random.permutation(table.reshape(-1, labels))
    assert split(LabelStore.from_dense(shuffled), [1 / parts] * parts).impossible == {}


@settings(deadline=None)
@given(st.integers(2, 3), st.lists(st.integers(3, 8), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_repair_closes_all_gaps_of_items_with_one_label(parts: int, counts: list[int], random: Any) -> None:
    """From the worst start, items sorted by label: as long as a part has room for all labels, a swap always helps."""
    rows = [[label] for label, n in enumerate(counts) for _ in range(n)]
    positives = LabelStore.from_lists(rows).entries.positives
    part = np.arange(len(rows)) * parts // len(rows)
    sizes = np.bincount(part, minlength=parts)
    order = np.array(random.sample(range(len(rows)), len(rows)))
    held = repair(part, positives, len(counts), parts, order)
    assert (np.bincount(part, minlength=parts) == sizes).all()
    for p in range(parts):
        for label in range(len(counts)):
            assert held[p, label] == sum(rows[i] == [label] for i in np.nonzero(part == p)[0])
    assert (held > 0).all()


def test_parts_wish_for_their_fraction_and_for_one_at_least() -> None:
    assert wishes(100, (0.8, 0.2)) == pytest.approx([80, 20])
    assert wishes(3, (0.98, 0.02)) == pytest.approx([2, 1])
    assert wishes(1, (0.5, 0.5)) == pytest.approx([0.5, 0.5])  # not enough for all
    assert wishes(10, (0.86, 0.11, 0.03)) == pytest.approx([9 * 0.86 / 0.97, 9 * 0.11 / 0.97, 1])


def test_a_small_part_gets_a_rare_label_too() -> None:
    rows = [[0]] * 3 + [[1]] * 197
    result = split(LabelStore.from_lists(rows), (0.98, 0.02))
    assert [len(part) for part in result.parts] == [196, 4]
    assert result.impossible == {}


def test_a_label_with_too_few_positives_is_reported_with_its_count() -> None:
    rows = [[0]] * 20 + [[0, 1], [0, 1], [0, 2]]
    result = split(LabelStore.from_lists(rows, labels=4), (0.4, 0.3, 0.3))
    assert result.impossible == {1: 2, 2: 1, 3: 0}


def test_labels_are_spread_as_the_parts_are_large() -> None:
    random = np.random.default_rng(0)
    table = random.random((2000, 30)) < np.geomspace(0.4, 0.01, 30)
    for rows, fraction in zip(split(LabelStore.from_dense(table), (0.7, 0.2, 0.1)).parts, (0.7, 0.2, 0.1), strict=True):
        assert (np.abs(table[rows].sum(axis=0) - fraction * table.sum(axis=0)) < 2 + 0.03 * table.sum(axis=0)).all()


def test_observed_negatives_are_spread_where_labels_were_observed_in_few_patterns() -> None:
    """Three questionnaires, each asking other labels: every part must get its share of each."""
    random = np.random.default_rng(0)
    patterns = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1]], bool)
    asked = patterns[random.choice(3, 600, p=[0.8, 0.15, 0.05])]
    table = np.where(asked, (random.random((600, 6)) < 0.1).astype(float), NAN)
    result = split(LabelStore.from_dense(table), (0.5, 0.25, 0.25))
    negatives = (table == 0).sum(axis=0)
    for rows, fraction in zip(result.parts, (0.5, 0.25, 0.25), strict=True):
        assert (np.abs((table[rows] == 0).sum(axis=0) - fraction * negatives) <= 0.1 * negatives + 2).all()


def test_items_without_positives_are_dealt_by_what_was_observed() -> None:
    """Six kinds of items, none with a positive: each part gets its share of each kind."""
    kinds = np.array([[0, 0, NAN], [0, NAN, NAN], [NAN, 0, NAN], [NAN, NAN, 0], [0, NAN, 0], [NAN, 0, 0]])
    kind = np.random.default_rng(0).choice(6, 300)
    result = split(LabelStore.from_dense(kinds[kind]), (0.5, 0.3, 0.2))
    for rows, fraction in zip(result.parts, (0.5, 0.3, 0.2), strict=True):
        shares = np.bincount(kind[rows], minlength=6) - fraction * np.bincount(kind, minlength=6)
        assert (np.abs(shares) <= 1.5).all()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("varied", [False, True])
def test_no_part_gets_the_items_of_which_more_was_observed(seed: int, varied: bool) -> None:
    """40 % of the labels unknown at random, or another share of each item: all parts are observed alike."""
    random = np.random.default_rng(seed)
    truth = random.random((1500, 14)) < np.geomspace(0.7, 0.02, 14)
    hidden = 0.8 * random.random((1500, 1)) if varied else 0.4
    table = np.where(random.random(truth.shape) < hidden, NAN, truth)
    parts = split(LabelStore.from_dense(table), (0.7, 0.1, 0.2), seed).parts
    seen = (~np.isnan(table)).mean(axis=1)  # of each item
    positives = (table == 1).sum(axis=1) - np.nanmean(table) * (~np.isnan(table)).sum(axis=1)  # more than its share
    for values in (seen, positives):
        for rows in parts:
            assert abs(values[rows].mean() - values.mean()) < 3.5 * values.std() / len(rows) ** 0.5


@pytest.mark.parametrize("varied", [False, True])
def test_over_a_hundred_sets_parts_differ_in_what_is_observed_and_in_prevalence_by_chance_alone(varied: bool) -> None:
    """In sampling errors, for each part and label: the mean is 0, and the spread not above a random deal's."""
    found = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        truth = random.random((240, 6)) < np.geomspace(0.6, 0.05, 6)
        hidden = 0.8 * random.random((240, 1)) if varied else 0.4
        table = np.where(random.random(truth.shape) < hidden, NAN, truth)
        seen = ~np.isnan(table)
        apart = []
        for rows in split(LabelStore.from_dense(table), (0.6, 0.2, 0.2), seed).parts:
            for known, size in ((seen, np.full(6, len(rows))), (table == 1, seen[rows].sum(axis=0))):
                whole = known.sum(axis=0) / (240 if known is seen else seen.sum(axis=0))
                error = np.sqrt(whole * (1 - whole) / size * (1 - len(rows) / 240))
                apart.append((known[rows].sum(axis=0) / size - whole) / error)
        found.append(apart)
    z = np.array(found)  # [100, parts x 2, C]
    assert np.abs(z.mean(axis=0)).max() < 0.4  # 4 standard errors of a mean of 100
    assert np.sqrt((z**2).mean(axis=(0, 2))).max() < 1.15


def test_many_labels_are_dealt_in_seconds() -> None:
    """Most of 6,000 labels have too few items for all parts, and thousands of gaps look for a swap in vain."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, 6001) ** 0.9
    rows = [sorted(set(row)) for row in random.choice(6000, (4000, 8), p=shares / shares.sum()).tolist()]
    started = time.process_time()
    result = split(LabelStore.from_lists(rows, labels=6000), (0.7, 0.1, 0.2))
    assert time.process_time() - started < 20  # 2 here; it was minutes
    assert sum(map(len, result.parts)) == 4000


def plain_repair(part: NDArray[Any], table: NDArray[np.bool_], order: NDArray[Any], parts: int) -> None:
    """The same swaps, by looking at all items each time."""
    wanted = table.sum(axis=0) >= parts

    def gaps(of: NDArray[Any]) -> NDArray[np.bool_]:
        return np.array([wanted & ~table[of == p].any(axis=0) for p in range(parts)])

    def cheapest(rows: list[int]) -> list[int]:
        def price(row: int) -> int:
            mine = table[part == part[row]].sum(axis=0)
            return int((wanted & table[row] & (mine == 1)).sum())

        return sorted(rows, key=price)[:64]

    def close(poor: int, label: int) -> bool:
        if not gaps(part)[poor, label]:
            return False
        takers = cheapest([row for row in order if part[row] == poor])
        for giver in cheapest([row for row in order if table[row, label]]):
            for taker in takers:
                swapped = part.copy()
                swapped[[giver, taker]] = part[[taker, giver]]
                if gaps(swapped).sum() < gaps(part).sum():
                    part[:] = swapped
                    return True
        return False

    while sum([close(poor, label) for poor, label in np.argwhere(gaps(part)).tolist()]):
        pass


@pytest.mark.parametrize("seed", range(30))
def test_repair_makes_the_swaps_of_a_plain_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    items, labels, parts = int(random.integers(6, 40)), int(random.integers(2, 14)), int(random.integers(2, 5))
    table = random.random((items, labels)) < random.uniform(0.05, 0.4)
    part, order = random.integers(0, parts, items), random.permutation(items)
    expected = part.copy()
    plain_repair(expected, table, order, parts)
    held = repair(part, LabelStore.from_dense(table).entries.positives, labels, parts, order)
    assert part.tolist() == expected.tolist()
    assert held.tolist() == [table[part == p].sum(axis=0).tolist() for p in range(parts)]


def test_the_seed_decides_and_the_order_of_items_does_not() -> None:
    random = np.random.default_rng(0)
    table = random.choice([1, 0, NAN], (200, 9), p=[0.1, 0.6, 0.3])
    store = LabelStore.from_dense(table, ids=[f"item {i}" for i in range(200)])
    order = random.permutation(200)
    shuffled = store.take(order)

    def named(of: LabelStore, seed: int) -> list[set[str]]:
        return [{str(of.ids[row]) for row in rows} for rows in split(of, (0.6, 0.4), seed).parts]

    assert named(store, 1) == named(store, 1) == named(shuffled, 1)
    assert named(store, 1) != named(store, 2)


@pytest.mark.parametrize("fractions", [(), (0.5, 0.6), (1.2, -0.2), (0.5,), (1.0, 0.0)])
def test_fractions_that_do_not_add_up_are_refused(fractions: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="add up to 1"):
        split(LabelStore.from_lists([[0], [1]]), fractions)
