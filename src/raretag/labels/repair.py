"""Swap items between the parts of a split until no part lacks a label, or no swap helps."""

from __future__ import annotations

import numpy as np

from raretag.labels.rows import Bools, Ints, Rows

_CANDIDATES = 64  # items tried on each side of a swap, the most promising first


def repair(part: Ints, positives: Rows, labels: int, parts: int, order: Ints) -> Ints:
    """Change `part` [N] in place; returns how many positives of each label every part holds then [parts, C].

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
