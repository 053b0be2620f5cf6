r"""Precision that rewards rare labels: propensity-scored precision (PSP@k).

Jain et al., "Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other Missing Label
Applications", KDD 2016.

Paper and code::

    N_l   positives     [C], in the training data of N items
    p_l   propensity    [C], chance that a true label was also recorded

    p_l   = 1 / (1 + C exp(-A log(N_l + B))),   C = (log N - 1) (B + 1)^A
    PSP@k = sum over rows and their best k labels of y_l / p_l, divided by the largest value that sum can have

The division by the best attainable sum, made once for all rows and not for each row, is the convention of the Extreme
Classification repository. Unknown labels leave the ranking of their row; rows without an observed positive add nothing
to either sum and are counted as excluded. Within equal scores negatives come first, then the smaller class index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import order
from raretag.metrics.scored import Scored
from raretag.metrics.sums import Sums


def propensities(positives: Tensor, items: int, *, a: float = 0.55, b: float = 1.5) -> Tensor:
    """p_l [C] float64 from training counts; a and b are 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon."""
    if items < 3:
        raise UserError(f"propensities of {items} items are not defined: the formula needs log N > 1, so 3 or more")
    c = (math.log(items) - 1.0) * (b + 1.0) ** a
    return torch.reciprocal(1.0 + c * torch.pow(positives.double() + b, -a))


@dataclass(frozen=True, slots=True)
class PropensityCounts(Sums):
    """Which classes stood where. Counts and not sums of 1 / p, so that adding is exact. D is the deepest k."""

    hits: Tensor  # [D, C] int64: rows in which class c is a positive at place j
    best: Tensor  # [D, C] int64: the same for the ranking with the largest attainable sum
    rows: Tensor  # [] int64, rows with an observed positive
    excluded_rows: Tensor  # [] int64, rows without

    @classmethod
    def of(cls, scores: Tensor, targets: Targets, propensity: Tensor, *, deepest: int = 5) -> PropensityCounts:
        positive = Scored(scores, targets).positive
        classes = scores.shape[1]
        if propensity.shape != (classes,):
            raise UserError(f"propensities {tuple(propensity.shape)} for {classes} labels: expected one for each")
        rarity = (-propensity.double()).to(scores.device).expand(scores.shape)
        hits, best = (torch.zeros(deepest, classes, dtype=torch.int64) for _ in range(2))
        for rows in order.blocks(len(scores), classes):
            hits += _places(scores[rows], targets.observed[rows], positive[rows], deepest)
            best += _places(rarity[rows], positive[rows], positive[rows], deepest)  # positives alone, rarest first
        known = positive.any(1)
        return cls(hits, best, rows=known.sum().cpu(), excluded_rows=(~known).sum().cpu())


def propensity_scored_precision_at(counts: PropensityCounts, propensity: Tensor, k: int) -> float:
    """PSP@k; NaN if no row has an observed positive."""
    if not 1 <= k <= len(counts.hits):
        raise UserError(f"k = {k}, but ranks were counted from 1 to {len(counts.hits)}: pass `deepest` when counting")
    worth = 1.0 / propensity.double().cpu()
    attained, attainable = (float((table[:k].sum(0) * worth).sum()) for table in (counts.hits, counts.best))
    return attained / attainable if attainable else math.nan


def _places(scores: Tensor, observed: Tensor, positive: Tensor, deepest: int) -> Tensor:
    """[D, C] int64: how often each class is a positive at each place."""
    key = order.keys(scores, observed, positive)
    best: NDArray[np.int64] = np.argsort(key, axis=1, kind="stable")[:, :deepest]
    row, place = np.nonzero(np.take_along_axis(key, best, axis=1) & 1)
    table = np.zeros((deepest, scores.shape[1]), dtype=np.int64)
    np.add.at(table, (place, best[row, place]), 1)
    return torch.from_numpy(table)
