r"""Metrics of the order of labels within an item, over its observed labels: an unknown label leaves the list.

Paper and code::

    P@k          = positives among the best k / k
    nDCG@k       = sum_{j <= k} positive_j / log2(j + 1), divided by the best attainable such sum
    coverage     = labels with a score >= the lowest score of a positive
    first        = of the items that have a label, the share in which it is the best of all; by label
    ranking loss = share of pairs (positive, negative) with score+ <= score-
    PSP@k        = sum over rows and their best k labels of y_l / p_l, divided by the largest value that sum can have
    p_l          = 1 / (1 + C exp(-A log(N_l + B))),   C = (log N - 1) (B + 1)^A,   N_l positives among N training items

Ties count against the model in all of them: within equal scores, negatives come first (for PSP@k then the smaller class
index). For coverage and ranking loss that is scikit-learn's rule. A row for which a number is undefined (fewer than k
observed labels for P@k, no observed positive for nDCG, coverage and PSP@k, no observed pair for ranking loss) is
excluded and counted; scikit-learn counts such rows as 0.

PSP@k rewards rare labels: p_l is the propensity, the chance that a true label was also recorded (Jain et al., "Extreme
Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other Missing Label Applications", KDD 2016). The
division by the best attainable sum, made once for all rows and not for each row, is the convention of the Extreme
Classification repository.
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
from raretag.metrics.scored import Scored, Sums, blocks, keys

_UNIT = 2.0**-36  # ranking losses are summed in this unit, as integers, so that the order of rows cannot matter


@dataclass(frozen=True, slots=True)
class RankingSums(Sums):
    """What the ranks of labels add up to; all int64, so shards merge exactly with `+`. D is the deepest k.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> sums = raretag.metrics.RankingSums.of(logits, targets, deepest=2)
    >>> sums.rows, sums.hits
    (tensor(3), tensor([2, 3]))
    """

    rows: Tensor  # []
    hits: Tensor  # [D], at k - 1: positives among the best k of the rows with k observed labels
    rows_with_labels: Tensor  # [D], at k - 1: rows with k observed labels
    gains: Tensor  # [D, D + 1], at (j, m): rows with m positives (D if more) and a positive at place j
    rows_with_positives: Tensor  # [D + 1], at m: rows with m positives (D if more)
    covered: Tensor  # [], sum of coverages
    losses: Tensor  # [], sum of ranking losses, in units of 2^-36
    rows_with_pairs: Tensor  # [], rows with an observed positive and an observed negative

    @classmethod
    def of(cls, scores: Tensor, targets: Targets, *, deepest: int = 5) -> RankingSums:
        positive = Scored(scores, targets).positive
        total = cls._of_block(scores[:0], targets.observed[:0], positive[:0], deepest)
        for block in blocks(*scores.shape):
            total += cls._of_block(scores[block], targets.observed[block], positive[block], deepest)
        return total

    @classmethod
    def _of_block(cls, scores: Tensor, observed: Tensor, positive: Tensor, deepest: int) -> RankingSums:
        best_first = np.sort(keys(scores, observed, positive), axis=1)
        hit = torch.from_numpy(best_first & 1)  # [R, C] int64, best first; unknown labels last, as 0
        place = torch.arange(hit.shape[1])
        found = hit.sum(1)  # positives of each row
        known = observed.sum(1).cpu()

        top = torch.zeros(len(hit), deepest, dtype=torch.int64)
        top[:, : hit.shape[1]] = hit[:, :deepest]
        depths = torch.arange(1, deepest + 1)
        deep_enough = known[:, None] >= depths  # [R, D]
        richness = torch.nn.functional.one_hot(found.clamp(max=deepest), deepest + 1)  # [R, D + 1]

        pairs = found * (known - found)
        inverted = (hit * place).sum(1) - found * (found - 1) // 2  # negatives before each positive
        losses = inverted / pairs.clamp(min=1).double() / _UNIT
        return cls(
            rows=torch.tensor(len(hit)),
            hits=(top.cumsum(1) * deep_enough).sum(0),
            rows_with_labels=deep_enough.sum(0),
            gains=top.T @ richness,
            rows_with_positives=richness.sum(0),
            covered=(hit * (place + 1)).amax(1).sum() if hit.numel() else torch.tensor(0),
            losses=losses.round().long().sum(),
            rows_with_pairs=(pairs > 0).sum(),
        )

    def depth(self, k: int) -> int:
        if not 1 <= k <= len(self.hits):
            raise UserError(f"k = {k}, but ranks were counted from 1 to {len(self.hits)}: pass `deepest` when counting")
        return k

    @property
    def ranked_rows(self) -> int:
        """Rows with an observed positive: those that nDCG and coverage are about."""
        return int(self.rows_with_positives[1:].sum())


def first_places(scores: Tensor, targets: Targets) -> Tensor:
    """Of the items that have a label, the share in which no other observed label scores as high [C]; NaN for none.

    With one label per item this is the accuracy of each class.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 0], [0, 1]])
    >>> first_places(torch.tensor([[2.0, -1.0], [-0.5, 0.3], [0.0, 1.0]]), targets)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    positive = Scored(scores, targets).positive
    found = torch.zeros(scores.shape[1], dtype=torch.float64)
    for block in blocks(*scores.shape) if scores.shape[1] else ():
        known = torch.where(targets.observed[block], scores[block], -torch.inf)
        best = known.amax(1, keepdim=True)
        alone = (known == best) & ((known == best).sum(1, keepdim=True) == 1)
        found += (alone & positive[block].bool()).sum(0).cpu()
    number = positive.bool().sum(0).cpu().double()
    return torch.where(number > 0, found / number.clamp(min=1), torch.nan)


def precision_at(sums: RankingSums, k: int) -> float:
    """P@k over the rows with k observed labels; NaN if there is none.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> sums = raretag.metrics.RankingSums.of(logits, targets, deepest=2)
    >>> raretag.metrics.precision_at(sums, 1)
    0.6666666666666666
    """
    rows = int(sums.rows_with_labels[sums.depth(k) - 1])
    return int(sums.hits[k - 1]) / (k * rows) if rows else math.nan


def ndcg_at(sums: RankingSums, k: int) -> float:
    """nDCG@k over the rows with an observed positive; NaN if there is none.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> sums = raretag.metrics.RankingSums.of(logits, targets, deepest=2)
    >>> raretag.metrics.ndcg_at(sums, 2)
    1.0
    """
    discount = 1.0 / torch.log2(torch.arange(2, sums.depth(k) + 2, dtype=torch.float64))  # [k]
    ideal = discount.cumsum(0)  # [k], of rows with 1, 2, ..., k or more positives
    positives = torch.arange(1, len(sums.rows_with_positives)).clamp(max=k)
    gained = discount @ sums.gains[:k, 1:].cpu().double()  # [D], for each number of positives
    return float((gained / ideal[positives - 1]).sum()) / sums.ranked_rows if sums.ranked_rows else math.nan


def coverage(sums: RankingSums) -> float:
    """How many labels must be read, best first, to find every positive of the row.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> sums = raretag.metrics.RankingSums.of(logits, targets, deepest=2)
    >>> raretag.metrics.coverage(sums)
    1.5
    """
    return int(sums.covered) / sums.ranked_rows if sums.ranked_rows else math.nan


def ranking_loss(sums: RankingSums) -> float:
    """The share of pairs in the wrong order, averaged over rows with an observed pair; NaN if there is none.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> sums = raretag.metrics.RankingSums.of(logits, targets, deepest=2)
    >>> raretag.metrics.ranking_loss(sums)
    0.0
    """
    rows = int(sums.rows_with_pairs)
    return int(sums.losses) * _UNIT / rows if rows else math.nan


def excluded_rows(sums: RankingSums, k: int) -> dict[str, int]:
    """How many rows did not enter each number.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> sums = raretag.metrics.RankingSums.of(logits, targets, deepest=2)
    >>> raretag.metrics.excluded_rows(sums, 1)
    {'P@1': 0, 'nDCG@1': 1, 'coverage': 1, 'ranking_loss': 2}
    """
    entered = {
        f"P@{k}": int(sums.rows_with_labels[sums.depth(k) - 1]),
        f"nDCG@{k}": sums.ranked_rows,
        "coverage": sums.ranked_rows,
        "ranking_loss": int(sums.rows_with_pairs),
    }
    return {name: int(sums.rows) - rows for name, rows in entered.items()}


def propensities(positives: Tensor, items: int, *, a: float = 0.55, b: float = 1.5) -> Tensor:
    """p_l [C] float64 from training counts; a and b are 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon.

    >>> import torch, raretag
    >>> raretag.metrics.propensities(torch.tensor([100, 3]), items=1000)
    tensor([0.5648, 0.1895], dtype=torch.float64)
    """
    if items < 3:
        raise UserError(f"propensities of {items} items are not defined: the formula needs log N > 1, so 3 or more")
    c = (math.log(items) - 1.0) * (b + 1.0) ** a
    return torch.reciprocal(1.0 + c * torch.pow(positives.double() + b, -a))


@dataclass(frozen=True, slots=True)
class PropensityCounts(Sums):
    """Which classes stood at which place. Counts and not sums of 1 / p, so that adding is exact. D is the deepest k."""

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
        for rows in blocks(len(scores), classes):
            hits += _places(scores[rows], targets.observed[rows], positive[rows], deepest)
            best += _places(rarity[rows], positive[rows], positive[rows], deepest)  # positives alone, rarest first
        known = positive.any(1)
        return cls(hits, best, rows=known.sum().cpu(), excluded_rows=(~known).sum().cpu())


def propensity_scored_precision_at(counts: PropensityCounts, propensity: Tensor, k: int) -> float:
    """PSP@k; NaN if no row has an observed positive.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> p = raretag.metrics.propensities(torch.tensor([100, 3]), items=1000)
    >>> counts = raretag.metrics.PropensityCounts.of(logits, targets, p, deepest=1)
    >>> raretag.metrics.propensity_scored_precision_at(counts, p, k=1)
    1.0
    """
    if not 1 <= k <= len(counts.hits):
        raise UserError(f"k = {k}, but ranks were counted from 1 to {len(counts.hits)}: pass `deepest` when counting")
    worth = 1.0 / propensity.double().cpu()
    attained, attainable = (float((table[:k].sum(0) * worth).sum()) for table in (counts.hits, counts.best))
    return attained / attainable if attainable else math.nan


def _places(scores: Tensor, observed: Tensor, positive: Tensor, deepest: int) -> Tensor:
    """[D, C] int64: how often each class is a positive at each place."""
    key = keys(scores, observed, positive)
    best: NDArray[np.int64] = np.argsort(key, axis=1, kind="stable")[:, :deepest]
    row, place = np.nonzero(np.take_along_axis(key, best, axis=1) & 1)
    table = np.zeros((deepest, scores.shape[1]), dtype=np.int64)
    np.add.at(table, (place, best[row, place]), 1)
    return torch.from_numpy(table)
