"""Split a data set so that rare labels are in every part.

Iterative stratification (Sechidis et al., "On the Stratification of Multi-Label Data", ECML PKDD 2011): the rarest
label is dealt first, item by item, to the part that lacks most of it. Departs from the paper: where a label has enough
positives every part asks for one at least, parts have exact sizes, and a last pass (`repair`) swaps items for parts
that still lack a label; if that fails, the cards are shuffled again a few times and the best deal counts.

Only observed positives steer. Items whose labels were observed alike stand next to each other when they are dealt, so
that every part also gets its share of observed negatives.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.labels.entries import Entries
from raretag.labels.rows import Bools, Ints, Rows, blocks
from raretag.labels.store import LabelStore

_PURPOSE = int.from_bytes(b"split", "big")
_SHUFFLES = 5
_CANDIDATES = 64  # items tried on each side of a swap, the most promising first


@dataclass(frozen=True, slots=True)
class Split:
    """Row numbers of each part, increasing, and the labels that some part had to go without."""

    parts: list[Ints]
    impossible: dict[int, int]  # label -> its number of positives, fewer than parts or tied to other labels


def split(store: LabelStore, fractions: Sequence[float], seed: int = 0) -> Split:
    """Deal all items to parts of these sizes; each part gets a positive of each label wherever that can be found."""
    sizes = part_sizes(len(store), fractions)
    best: Split | None = None
    for shuffle in range(_SHUFFLES):
        order = _order(store, seed, shuffle)
        part = _deal(store, sizes, fractions, order.tolist())
        held = repair(part, store.entries.positives, store.labels, len(sizes), order)  # [parts, C]
        totals, lacking = held.sum(axis=0), np.nonzero((held == 0).any(axis=0))[0]
        found = Split(
            [np.nonzero(part == p)[0] for p in range(len(sizes))],
            {int(label): int(totals[label]) for label in lacking},
        )
        if best is None or len(found.impossible) < len(best.impossible):
            best = found
        if (totals[lacking] < len(sizes)).all():
            break  # no other deal can do better
    assert best is not None
    return best


def part_sizes(items: int, fractions: Sequence[float]) -> list[int]:
    """Whole numbers that add up to all items, each less than 1 away from its fraction."""
    if not fractions or min(fractions) <= 0 or abs(math.fsum(fractions) - 1) > 1e-6:
        raise UserError(
            f"fractions {list(fractions)}; expected numbers above 0 that add up to 1, such as [0.8, 0.1, 0.1]"
        )
    exact = [items * fraction / math.fsum(fractions) for fraction in fractions]
    sizes = [math.floor(size) for size in exact]
    by_rest = sorted(range(len(sizes)), key=lambda p: sizes[p] - exact[p])  # the largest remainder first
    for p in by_rest[: items - sum(sizes)]:
        sizes[p] += 1
    return sizes


def _order(store: LabelStore, seed: int, shuffle: int) -> Ints:
    """All rows, those with alike observed labels side by side, else at random."""
    draws = chance.key(_PURPOSE, seed, shuffle, store.item_keys()).numpy()
    observed, pattern = _patterns(store.entries)
    return np.lexsort((draws, pattern, observed))


def _patterns(entries: Entries) -> tuple[Ints, Ints]:
    """For each item how many labels were observed, and a number that is equal for equal sets of them."""
    codes = chance.mix(torch.arange(1, entries.labels + 1)).numpy()  # a set is the sum of the codes of its members
    if entries.bits is not None:
        dense = (entries.observed(*block) for block in blocks(len(entries), entries.labels))
        observed, pattern = zip(*((mask.sum(axis=1), mask @ codes) for mask in dense), strict=True)
        return np.concatenate(observed), np.concatenate(pattern)
    if entries.listed is None:
        return np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
    sums = np.concatenate([[0], np.cumsum(codes[entries.listed.indices])])
    return entries.listed.lengths, np.diff(sums[entries.listed.indptr])


def _deal(store: LabelStore, sizes: list[int], fractions: Sequence[float], order: list[int]) -> Ints:
    """The part of each item [N]."""
    part = np.full(len(store), -1, np.int64)
    lists = store.lists()
    room = list(sizes)
    left = np.bincount(store.entries.positives.indices, minlength=store.labels)  # positives not yet dealt
    wish = [wishes(int(n), fractions) for n in left]
    holders: list[list[int]] = [[] for _ in range(store.labels)]
    for row in order:
        for label in lists[row]:
            holders[label].append(row)

    rarest = [(int(n), label) for label, n in enumerate(left) if n]  # a heap; what is no longer true is passed over
    heapq.heapify(rarest)
    while rarest:
        number, label = heapq.heappop(rarest)
        if number != left[label]:
            continue
        touched: set[int] = set()
        for row in holders[label]:
            if part[row] < 0:
                chosen = max((p for p in range(len(room)) if room[p]), key=lambda p: (wish[label][p], room[p]))
                part[row] = chosen
                room[chosen] -= 1
                for other in lists[row]:
                    wish[other][chosen] -= 1
                    left[other] -= 1
                touched.update(lists[row])
        for other in touched:
            if left[other]:
                heapq.heappush(rarest, (int(left[other]), other))
    for row in order:  # items without a positive
        if part[row] < 0:
            chosen = max(range(len(room)), key=lambda p: room[p] / max(sizes[p], 1))
            part[row] = chosen
            room[chosen] -= 1
    return part


def wishes(count: int, fractions: Sequence[float]) -> list[float]:
    """How many of a label's positives each part should get: its fraction, but one at least if there are enough."""
    if count < len(fractions):
        return [count * fraction for fraction in fractions]
    small: set[int] = set()
    while True:
        rest = 1.0 - sum(fractions[p] for p in small)
        scale = (count - len(small)) / rest if rest > 0 else 0.0
        wanted = [1.0 if p in small else fraction * scale for p, fraction in enumerate(fractions)]
        fresh = {p for p, wish in enumerate(wanted) if wish < 1.0} - small
        if not fresh or len(small | fresh) == len(fractions):
            return wanted
        small |= fresh


def repair(part: Ints, positives: Rows, labels: int, parts: int, order: Ints) -> Ints:
    """Swap items between parts until no part lacks a label, or no swap helps.

    Changes `part` [N] in place; returns how many positives of each label every part holds then [parts, C].

    Sizes of parts stay. Every swap makes the number of gaps, (part, label) pairs without a positive, smaller, so this
    ends. Labels with fewer positives than parts cannot be everywhere and have no gaps. Of equally good items the first
    in `order` is taken.
    """
    return _Repair(part, positives, labels, parts, order).run()


class _Repair:
    def __init__(self, part: Ints, positives: Rows, labels: int, parts: int, order: Ints) -> None:
        self.part, self.positives, self.order = part, positives, order
        self.row = positives.row
        self.held = np.zeros((parts, labels), np.int64)
        np.add.at(self.held, (part[self.row], positives.indices), 1)
        self.wanted: Bools = self.held.sum(axis=0) >= parts

    def run(self) -> Ints:
        helped = True
        while helped:
            gaps = np.argwhere((self.held == 0) & self.wanted).tolist()
            helped = sum(self.close(poor, label) for poor, label in gaps) > 0  # a sum, so that every gap gets a try
        return self.held

    def close(self, poor: int, label: int) -> bool:
        """Give the part an item with the label for one without which it can do."""
        if self.held[poor, label]:
            return False  # an earlier swap has closed this gap too
        holds = np.zeros(len(self.part), np.bool_)
        holds[self.row[self.positives.indices == label]] = True
        takers = self.cheapest(self.part == poor)
        for giver in self.cheapest(holds):
            for taker in takers:
                if self.gain(giver, taker) > 0:
                    self.swap(giver, taker)
                    return True
        return False

    def cheapest(self, candidates: Bools) -> list[int]:
        """Rows that leave the fewest gaps behind, first."""
        last = self.wanted[self.positives.indices] & (self.held[self.part[self.row], self.positives.indices] == 1)
        price = np.bincount(self.row[last], minlength=len(self.part))
        rows = self.order[candidates[self.order]]
        return [int(row) for row in rows[np.argsort(price[rows], kind="stable")][:_CANDIDATES]]

    def labels(self, row: int) -> set[int]:
        indptr = self.positives.indptr
        return set(self.positives.indices[indptr[row] : indptr[row + 1]].tolist())

    def gain(self, giver: int, taker: int) -> int:
        """How many gaps a swap closes, less those it opens."""
        rich, poor = self.part[giver], self.part[taker]
        gain = 0
        for moved, source, target in (
            (self.labels(giver) - self.labels(taker), rich, poor),
            (self.labels(taker) - self.labels(giver), poor, rich),
        ):
            for label in moved:
                if self.wanted[label]:
                    gain += int(self.held[target, label] == 0) - int(self.held[source, label] == 1)
        return gain

    def swap(self, giver: int, taker: int) -> None:
        rich, poor = int(self.part[giver]), int(self.part[taker])
        for row, source, target in ((giver, rich, poor), (taker, poor, rich)):
            labels = list(self.labels(row))
            self.part[row] = target
            self.held[source, labels] -= 1
            self.held[target, labels] += 1
