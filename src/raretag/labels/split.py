"""Split a data set so that rare labels are in every part.

Iterative stratification (Sechidis et al., "On the Stratification of Multi-Label Data", ECML PKDD 2011): the rarest
label is dealt first, item by item, to the part that lacks most of it. Departs from the paper: where a label has enough
positives every part asks for one at least, parts have exact sizes, and a last pass (`repair`) swaps items for parts
that still lack a label; if that fails, the cards are shuffled again a few times and the best deal counts.

Of very many labels most are too rare to be in every part, and dealing item by item takes long. There the items of the
same rarest label stand together, and each part takes its share of that row at even distances.

Only observed positives steer; the items that have them are dealt in random order, so that no part gets those of which
more was observed. Items without a positive whose labels were observed alike stand next to each other when they are
dealt, so that every part also gets its share of observed negatives. All of it is linear in the positives.
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
from raretag.labels.repair import repair
from raretag.labels.rows import Ints, blocks
from raretag.labels.store import LabelStore

_PURPOSE = int.from_bytes(b"split", "big")
_SHUFFLES = 5
_MANY = 1 << 16  # positives of which the cards are not shuffled again
_MANY_LABELS, _MOST_POSITIVES = 8192, 1 << 22  # beyond which items are dealt along a row


@dataclass(frozen=True, slots=True)
class Split:
    """Row numbers of each part, increasing, and the labels that some part had to go without."""

    parts: list[Ints]
    impossible: dict[int, int]  # label -> its number of positives, fewer than parts or tied to other labels


def split(store: LabelStore, fractions: Sequence[float], seed: int = 0) -> Split:
    """Deal all items to parts of these sizes; each part gets a positive of each label wherever that can be found."""
    sizes = part_sizes(len(store), fractions)
    if store.labels > _MANY_LABELS or len(store.entries.positives.indices) > _MOST_POSITIVES:
        return _deal_along(store, sizes, seed)
    lists, patterns = store.lists(), _patterns(store.entries)
    best: Split | None = None
    for shuffle in range(_SHUFFLES if len(store.entries.positives.indices) <= _MANY else 1):
        draws = chance.key(_PURPOSE, seed, shuffle, store.item_keys()).numpy()
        order = np.argsort(draws, kind="stable")
        alike = np.lexsort((draws, *patterns))
        part = _deal(lists, store.labels, sizes, fractions, order.tolist(), alike.tolist())
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


def _deal_along(store: LabelStore, sizes: list[int], seed: int) -> Split:
    """Items in the order of their rarest label, dealt at even distances: no loop over items or labels."""
    positives, labels = store.entries.positives, store.labels
    counts = np.bincount(positives.indices, minlength=labels).astype(np.int64)
    ranks = np.empty(labels, np.int64)
    ranks[np.argsort(counts, kind="stable")] = np.arange(labels)  # 0: the rarest
    rarest = np.full(len(store), labels, np.int64)  # items without a positive come last
    filled = positives.lengths > 0
    if filled.any():
        rarest[filled] = np.minimum.reduceat(ranks[positives.indices], positives.indptr[:-1][filled])
    draws = chance.key(_PURPOSE, seed, 0, store.item_keys()).numpy()
    order = np.lexsort((draws, rarest))
    due = [(np.arange(size) + 0.5) * (len(store) / size) for size in sizes if size]  # when each part takes an item
    takers = np.repeat([p for p, size in enumerate(sizes) if size], [len(times) for times in due])
    part = np.empty(len(store), np.int64)
    part[order] = takers[np.argsort(np.concatenate([*due, np.zeros(0)]), kind="stable")]
    held = np.bincount(part[positives.row] * labels + positives.indices, minlength=len(sizes) * labels)
    lacking = np.flatnonzero((held.reshape(len(sizes), labels) == 0).any(axis=0))
    return Split(
        [np.flatnonzero(part == p) for p in range(len(sizes))],
        dict(zip(lacking.tolist(), counts[lacking].tolist(), strict=True)),
    )


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


def _patterns(entries: Entries) -> tuple[Ints, Ints]:
    """For each item a number that is equal for equal sets of observed labels, and how many they are."""
    codes = chance.mix(torch.arange(1, entries.labels + 1)).numpy()  # a set is the sum of the codes of its members
    if entries.bits is not None:
        dense = (entries.observed(*block) for block in blocks(len(entries), entries.labels))
        observed, pattern = zip(*((mask.sum(axis=1), mask @ codes) for mask in dense), strict=True)
        return np.concatenate(pattern), np.concatenate(observed)
    if entries.listed is None:
        return np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
    sums = np.concatenate([[0], np.cumsum(codes[entries.listed.indices])])
    return np.diff(sums[entries.listed.indptr]), entries.listed.lengths


def _deal(
    lists: list[list[int]],
    labels: int,
    sizes: list[int],
    fractions: Sequence[float],
    order: list[int],
    alike: list[int],
) -> Ints:
    """The part of each item [N]: those with positives in this order, the others with those next to them alike."""
    part = [-1] * len(lists)
    room = list(sizes)
    holders: list[list[int]] = [[] for _ in range(labels)]
    for row in order:
        for label in lists[row]:
            holders[label].append(row)
    left = [len(rows) for rows in holders]  # positives not yet dealt
    of_count = {n: wishes(n, fractions) for n in set(left)}
    wish = [of_count[n].copy() for n in left]

    rarest = [(n, label) for label, n in enumerate(left) if n]  # a heap; what is no longer true is passed over
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
                heapq.heappush(rarest, (left[other], other))
    for row in alike:  # items without a positive
        if part[row] < 0:
            chosen = max(range(len(room)), key=lambda p: room[p] / max(sizes[p], 1))
            part[row] = chosen
            room[chosen] -= 1
    return np.asarray(part, np.int64)


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
