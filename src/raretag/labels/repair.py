"""Swap items between parts until every part has every label, or no swap helps. Made for very many labels.

What an item costs its part is kept up to date: its price, the number of labels of which it is the part's last positive.
So a gap, a (part, label) pair without a positive, looks at the few items that hold the label and at the cheapest items
of its part, and never at all items.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from raretag.labels.rows import Ints, Rows

_CANDIDATES = 64  # items tried on each side of a swap, the most promising first


def repair(part: Ints, positives: Rows, labels: int, parts: int, order: Ints) -> Ints:
    """Swap items between parts until no part lacks a label, or no swap helps.

    Changes `part` [N] in place; returns how many positives of each label every part holds then [parts, C].

    Sizes of parts stay. Every swap makes the number of gaps smaller, so this ends. Labels with fewer positives than
    parts cannot be everywhere and have no gaps. Of equally good items the first in `order` is taken.
    """
    work = _Repair(part, positives, labels, parts, order)
    held = work.run()
    part[:] = work.part
    return held


@dataclass
class _Takers:
    """The cheapest items of a part, which it can give away for an item with a label that it lacks."""

    rows: list[int]
    having: dict[int, list[int]]  # label -> which of the rows hold it
    worth: dict[int, Ints]  # for another part: gaps that each row closes there, less those it leaves behind


class _Repair:
    def __init__(self, part: Ints, positives: Rows, labels: int, parts: int, order: Ints) -> None:
        self.part: list[int] = part.tolist()
        self.lists = positives.lists()
        held = np.zeros((parts, labels), np.int64)
        np.add.at(held, (part[positives.row], positives.indices), 1)
        self.held: list[list[int]] = held.tolist()
        enough = held.sum(axis=0) >= parts
        self.wanted: list[bool] = enough.tolist()
        if not ((held == 0) & enough).any():
            return  # nothing to do: the rest is not needed
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.place: list[int] = place.tolist()
        self.row_at: list[int] = order.tolist()
        self.holders: list[list[int]] = [[] for _ in range(labels)]
        for row in self.row_at:
            for label in self.lists[row]:
                self.holders[label].append(row)
        self.price = [self.price_of(row) for row in range(len(part))]
        self.cheapest: list[list[tuple[int, int]]] = [[] for _ in range(parts)]  # heaps; the outdated is passed over
        for row, p in enumerate(self.part):
            self.cheapest[p].append((self.price[row], self.place[row]))
        for heap in self.cheapest:
            heapq.heapify(heap)
        self.known: dict[int, _Takers] = {}  # of parts, until the next swap

    def run(self) -> Ints:
        helped = True
        while helped:
            gaps = np.argwhere((np.asarray(self.held) == 0) & np.asarray(self.wanted, np.bool_)).tolist()
            helped = sum(self.close(poor, label) for poor, label in gaps) > 0  # a sum, so that every gap gets a try
        return np.asarray(self.held)

    def price_of(self, row: int) -> int:
        held = self.held[self.part[row]]
        return sum(held[label] == 1 and self.wanted[label] for label in self.lists[row])

    def close(self, poor: int, label: int) -> bool:
        """Give the part an item with the label for one without which it can do."""
        if self.held[poor][label]:
            return False  # an earlier swap has closed this gap too
        takers = self.takers(poor)
        holders = sorted(self.holders[label], key=lambda row: (self.price[row], self.place[row]))
        for giver in holders[:_CANDIDATES]:
            taker = self.partner(giver, poor, takers)
            if taker is not None:
                self.swap(giver, taker)
                return True
        return False

    def takers(self, poor: int) -> _Takers:
        """Rows that leave the fewest gaps behind."""
        if poor not in self.known:
            heap, found = self.cheapest[poor], dict[int, tuple[int, int]]()
            while heap and len(found) < _CANDIDATES:
                entry = heapq.heappop(heap)
                row = self.row_at[entry[1]]
                if self.part[row] == poor and self.price[row] == entry[0]:
                    found[row] = entry
            for entry in found.values():
                heapq.heappush(heap, entry)
            having: dict[int, list[int]] = {}
            for at, row in enumerate(found):
                for label in self.lists[row]:
                    having.setdefault(label, []).append(at)
            self.known[poor] = _Takers(list(found), having, {})
        return self.known[poor]

    def partner(self, giver: int, poor: int, takers: _Takers) -> int | None:
        """The first of the takers for which a swap closes more gaps than it opens."""
        rich = self.part[giver]
        here, there = self.held[rich], self.held[poor]
        if rich not in takers.worth:
            closed = [sum(here[label] == 0 and self.wanted[label] for label in self.lists[row]) for row in takers.rows]
            takers.worth[rich] = np.array(closed) - [self.price[row] for row in takers.rows]
        gain = takers.worth[rich] - self.price[giver]
        gain = gain + sum(there[label] == 0 and self.wanted[label] for label in self.lists[giver])
        for label in self.lists[giver]:  # what both hold does not move
            if self.wanted[label] and label in takers.having:
                gain[takers.having[label]] += (here[label] == 1) + (there[label] == 1)
        good = np.flatnonzero(gain > 0)
        return takers.rows[good[0]] if len(good) else None

    def swap(self, giver: int, taker: int) -> None:
        rich, poor = self.part[giver], self.part[taker]
        for row, source, target in ((giver, rich, poor), (taker, poor, rich)):
            self.part[row] = target
            for label in self.lists[row]:
                self.held[source][label] -= 1
                self.held[target][label] += 1
        changed = {giver, taker}
        for label in {*self.lists[giver], *self.lists[taker]}:
            few = [p for p in (rich, poor) if self.wanted[label] and self.held[p][label] in (1, 2)]
            if few:
                changed.update(row for row in self.holders[label] if self.part[row] in few)
        for row in changed:
            self.price[row] = self.price_of(row)
            heapq.heappush(self.cheapest[self.part[row]], (self.price[row], self.place[row]))
        self.known.clear()
