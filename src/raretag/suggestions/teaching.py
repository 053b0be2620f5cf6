r"""In which order answers teach most: rare labels before frequent ones, and no near duplicates next to each other.

A positive more is worth much to a label with three of them, and nothing to one with a thousand. With n_c the marked
positives of label c and p the probability of a suggestion, the expected worth of asking is taken as

    gain = p / (n_c + m_c + 1)^2    m_c: sum of p of the suggestions of c that come earlier

which is the fall of 1 / n_c. (The power was chosen on training items that were put aside, each set left out in turn:
with 1 and 1.5 more answers are "yes", and rare labels gain less; docs/log.md.) The greedy order by gain gives every
label its share, the rare ones first. Within a label an item that resembles one asked before (by its scores of all
labels) comes after the others: the second photo of a burst teaches little.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from raretag.metrics.label_frequency import Floats

POWER = 2.0  # with which the gain falls with the known positives of a label
_ALIKE = 0.98  # cosine of two rows of scores, from which items are near duplicates
_LATER = 0.25  # what is left of the gain of a near duplicate
_COMPARED = 400  # suggestions of a label that are compared with each other

Ints = NDArray[np.int64]


def teaching_order(
    probability: Floats, label: Ints, marked: Ints, profile: Floats | None = None, *, power: float = POWER
) -> Ints:
    """The suggestions [K] in the order in which to ask.

    Args:
        probability: [K], that a suggestion is right.
        label: [K], its label.
        marked: [C], positives of each label that are known.
        profile: [K, D], what near duplicates are found by: scores of the item; None: they are not looked for.
        power: With which the gain falls with the known positives of a label.

    >>> teaching_order(np.array([0.9, 0.8, 0.7]), np.array([0, 0, 1]), np.array([100, 2]))
    array([2, 0, 1])
    """
    worth = probability.astype(np.float64) * (1.0 if profile is None else _novelty(probability, label, profile))
    queues: dict[int, list[int]] = {}
    for place in np.argsort(-worth, kind="stable").tolist():
        queues.setdefault(int(label[place]), []).append(place)
    known = marked.astype(np.float64)
    heap = [(-worth[queue[0]] / (known[one] + 1) ** power, one, 0) for one, queue in queues.items()]
    heapq.heapify(heap)
    order = []
    while heap:
        _, one, place = heapq.heappop(heap)
        order.append(queues[one][place])
        known[one] += probability[order[-1]]
        if place + 1 < len(queues[one]):
            gain = worth[queues[one][place + 1]] / (known[one] + 1) ** power
            heapq.heappush(heap, (-gain, one, place + 1))
    return np.array(order, np.int64)


def _novelty(probability: Floats, label: Ints, profile: Floats) -> Floats:
    """[K]: 1, or less for an item that resembles a likelier one of the same label."""
    centred = profile - profile.mean(axis=0)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    novelty = np.ones(len(probability))
    for one in np.unique(label):
        rows = np.flatnonzero(label == one)
        rows = rows[np.argsort(-probability[rows], kind="stable")][:_COMPARED]
        alike = np.tril(unit[rows] @ unit[rows].T >= _ALIKE, -1)
        novelty[rows[alike.any(axis=1)]] = _LATER
    return novelty
