r"""Metrics of weighted items, for many weightings at once: what resampling needs.

An item drawn m times is an item of weight m, so a resample is a column of weights and nothing has to be sorted again.

Paper and code::

    AP = sum_k (TP_k - TP_{k-1}) TP_k / A_k / TP_K

TP_k and A_k are the weights of the positives and of all observed items with a score at or above threshold k. Only
thresholds that some positive has can matter: the first cuts the sorted items of a class into one segment for each of
them, and then A is a running sum over sums of segments.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from raretag.core.targets import Targets
from raretag.metrics.decisions import check_decided
from raretag.metrics.scored import Integers, Places, Scored, blocks, keys, positives


class WeightedMeasure(Protocol):
    """A number for each class and each weighting. Build it once, use it often."""

    def of(self, weights: Tensor) -> Tensor:
        """[N, R] floating weights >= 0 to [C, R] float64; NaN where a class has no weight of positives."""


class _Segments(NamedTuple):
    """Lists of items, one after the other, and where each begins."""

    items: Tensor  # int32
    starts: Tensor  # [K] int32

    def sums(self, weights: Tensor) -> Tensor:
        return embedding_bag(self.items, weights, self.starts, mode="sum")  # [K, R]


class WeightedAveragePrecision:
    """The AP of `average_precision`, ties and unknown entries included; sorts once, here."""

    def __init__(self, scores: Tensor, targets: Targets) -> None:
        positive = Scored(scores, targets).positive
        items, classes = scores.shape
        self._classes: list[tuple[_Segments, _Segments]] = []  # of each class: all items, positives alone
        for block in blocks(classes, items):
            key = keys(*(entries[:, block].T.contiguous() for entries in (scores, targets.observed, positive)))
            best_first = np.argsort(key, axis=1)
            self._classes += map(_segments, best_first.astype(np.int32), np.take_along_axis(key, best_first, axis=1))

    def of(self, weights: Tensor) -> Tensor:
        result = torch.full((len(self._classes), weights.shape[1]), torch.nan, dtype=torch.float64)
        least = torch.finfo(weights.dtype).tiny  # where nothing has weight yet, 0 / least is 0
        for place, (everyone, positive) in enumerate(self._classes):
            if len(positive.items):
                gained = positive.sums(weights).double()  # [K, R]
                found = gained.cumsum(0)
                above = everyone.sums(weights).double().cumsum_(0).clamp_(min=least)
                result[place] = gained.mul_(found).div_(above).sum(0) / found[-1]
        return result


def _segments(best_first: Places, keys: Integers) -> tuple[_Segments, _Segments]:
    """Of one class, from its items and their keys, best first. In a tie positives come last, so the last ends it."""
    place = np.flatnonzero(keys & 1)
    last_of_tie = np.append(np.diff(keys[place]) != 0, True)[: len(place)]
    ends = np.flatnonzero(last_of_tie) + 1  # in `place`
    return _cut(best_first, place[ends - 1] + 1), _cut(best_first[place], ends)


def _cut(items: Places, ends: Integers) -> _Segments:
    """Segments that end before `ends`; what follows the last belongs to none."""
    ends = ends.astype(np.int32)
    starts = np.append(np.int32(0), ends)[:-1]
    return _Segments(torch.from_numpy(items[: ends[-1] if len(ends) else 0].copy()), torch.from_numpy(starts))


class WeightedF1:
    """The F1 of `raretag.metrics.decisions.f1`; three matrix products."""

    def __init__(self, decided: Tensor, targets: Targets) -> None:
        check_decided(decided, targets)
        positive = positives(targets)
        # [3, C, N] bool: right, decided for, positive
        self._entries = torch.stack([decided & positive, decided & targets.observed, positive]).mT.contiguous().cpu()

    def of(self, weights: Tensor) -> Tensor:
        right, guessed, found = (entries.to(weights.dtype) @ weights for entries in self._entries)
        share = 2.0 * right.double() / (guessed + found).double()
        return torch.where(found > 0, share, torch.nan)
