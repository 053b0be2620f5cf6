r"""Between which values a metric lies: whatever the unknown labels are, and whatever the order within bins is.

Unknown labels. Nothing is assumed, so the bounds are often wide. Decisions: at worst every unknown label that was
decided for is absent and every other one is there; at best the other way round. Average precision: of all ways to make
m unknown labels positive, the best takes the m with the highest scores and the worst the m with the lowest (to swap a
positive with a higher-scored negative never lowers AP), so the bounds are the extremes over m, which one pass finds: a
new positive adds its own precision, and 1 / rank at each positive behind it. Where an unknown label shares its score
with others that does not hold (they share the precision after all of them), and every number of positives in every such
group is tried.

Bins. For more scores than memory can hold, logits are counted in bins, label by label, so memory is [C, bins] whatever
the number of items. The order within a bin is forgotten. With T positives among A items above a bin that holds p
positives and n negatives, the precisions at its positives sum up to

    at most   p (T + p) / (A + p)                                       positives first, all in one tie
    at least  sum_{j=1..p} f(j),  f(x) = (T + x) / (A + n + x)          negatives first, no ties

and f grows and is concave, so that this sum is at least p f(1) and at least

    integral of f from 1/2 to p + 1/2  =  p - (A + n - T) log(1 + p / (A + n + 1/2))

Both ends are summed over bins: the exact AP lies between them. Not an estimate of the error, but a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.scored import Scored, Sums

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Two ends between which the metric of each class lies."""

    low: Tensor  # [C] float64; NaN for classes without an observed positive
    high: Tensor


def average_precision_bounds(scores: Tensor, targets: Targets) -> Bounds:
    """Between which values the AP of each class lies, whatever the unknown labels are.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.average_precision_bounds(logits, targets).low
    tensor([0.8333, 1.0000], dtype=torch.float64)
    """
    positive = Scored(scores, targets).positive.cpu().numpy()
    unknown, values = targets.unknown.cpu().numpy(), scores.detach().double().cpu().numpy()
    low, high = (torch.full((scores.shape[1],), math.nan, dtype=torch.float64) for _ in range(2))
    for label in range(scores.shape[1]):
        if positive[:, label].any():
            entries = values[:, label], positive[:, label], unknown[:, label]
            low[label], high[label] = _extreme(*entries, best=False), _extreme(*entries, best=True)
    return Bounds(low, high)


def _extreme(score: Floats, positive: Bools, unknown: Bools, best: bool) -> float:
    order = np.argsort(-score, kind="stable")
    ranked, is_positive, is_unknown = -score[order], positive[order], unknown[order]
    end = np.searchsorted(ranked, ranked, side="right")  # items with equal scores share one threshold, rank `end`
    begin = np.searchsorted(ranked, ranked, side="left")
    if ((end - begin)[is_unknown] > 1).any():
        return _extreme_with_ties(ranked, is_positive, is_unknown, best)
    found = np.concatenate([[0], np.cumsum(is_positive)])  # known positives among the first k
    share = np.where(is_positive, 1.0 / end, 0.0)
    start = float((share * found[end]).sum())  # sum of precisions with m = 0
    behind = share.sum() - np.concatenate([[0.0], np.cumsum(share)])[begin]  # 1 / rank of positives here and behind
    places = np.flatnonzero(is_unknown)
    if not best:
        places = places[::-1]  # from the lowest score up
    inverse = 1.0 / end[places]
    before = np.arange(len(places))  # unknown labels that are positive by now
    own = (found[end[places]] + (before if best else 0) + 1) * inverse
    others = behind[places] + (0 if best else np.cumsum(inverse) - inverse)
    sums = start + np.concatenate([[0.0], np.cumsum(own + others)])
    values = sums / (found[-1] + np.arange(len(sums)))
    return float(values.max() if best else values.min())


def _extreme_with_ties(ranked: Floats, positive: Bools, unknown: Bools, best: bool) -> float:
    """From the highest score down: the extreme sum of precisions for each number of unknown labels that are positive.
    The time grows with the square of the number of unknown labels."""
    starts = np.flatnonzero(np.concatenate([[True], np.diff(ranked) != 0]))
    known, open_ = np.add.reduceat(positive, starts, dtype=int), np.add.reduceat(unknown, starts, dtype=int)
    ranks = np.append(starts[1:], len(ranked))
    worst = -math.inf if best else math.inf
    pick = np.maximum if best else np.minimum
    sums, found = np.zeros(1), 0  # sums[m]
    for here, free, rank in zip(known, open_, ranks, strict=True):
        found += here
        longer = np.full(len(sums) + free, worst)
        for more in range(free + 1):
            m = np.arange(len(sums)) + more
            longer[m] = pick(longer[m], sums + (here + more) * (found + m) / rank)
        sums = longer
    values = sums / (found + np.arange(len(sums)))
    return float(values.max() if best else values.min())


def decision_bounds(decided: Tensor, targets: Targets) -> dict[str, Bounds]:
    """Precision, recall and F1 of each class; micro averages are `micro_bounds`.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.decision_bounds(logits > 0, targets)["recall"].high
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    tp, fp, fn, above, below = _counts(decided, targets)
    known = torch.where(tp + fn > 0, 1.0, math.nan)
    return {name: Bounds(low * known, high * known) for name, (low, high) in _ends(tp, fp, fn, above, below).items()}


def micro_bounds(decided: Tensor, targets: Targets) -> dict[str, tuple[float, float]]:
    """Between which values precision, recall and F1 of all classes together lie.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.micro_bounds(logits > 0, targets)["recall"]
    (0.5, 0.6666666666666666)
    """
    ends = _ends(*(count.sum() for count in _counts(decided, targets)))
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


def _counts(decided: Tensor, targets: Targets) -> tuple[Tensor, ...]:
    """[C] float64 each: true and false positives, false negatives, unknown labels decided for and against."""
    positive = targets.observed & (targets.value == 1)
    negative = targets.observed & ~positive
    masks = (positive & decided, negative & decided, positive & ~decided)
    return tuple(mask.sum(0).double() for mask in (*masks, targets.unknown & decided, targets.unknown & ~decided))


def _ends(tp: Tensor, fp: Tensor, fn: Tensor, above: Tensor, below: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    def ratio(part: Tensor, whole: Tensor) -> Tensor:
        return torch.where(whole > 0, part / whole.clamp(min=1e-300), 0.0)  # nothing decided: 0, as elsewhere

    decided = tp + fp + above
    return {
        "precision": (ratio(tp, decided), ratio(tp + above, decided)),
        "recall": (ratio(tp, tp + fn + below), ratio(tp + above, tp + above + fn)),
        "F1": (ratio(2 * tp, decided + tp + fn + below), ratio(2 * (tp + above), decided + tp + above + fn)),
    }


LIMIT = 16.0  # bins are of one width from logit -16 to 16; what is beyond belongs to the first and the last


class Bracket(NamedTuple):
    """The exact AP of each class lies between `low` and `high`; NaN for classes without an observed positive."""

    low: Tensor  # [C] float64
    high: Tensor  # [C] float64

    @property
    def middle(self) -> Tensor:
        return (self.low + self.high) / 2

    @property
    def error(self) -> Tensor:
        """[C]: the middle is not further than this from the exact AP."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class BinnedScores(Sums):
    """Logits counted in bins, for average precision in memory that does not grow with the items.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.BinnedScores.of(logits, targets, bins=4).observed
    tensor([[0, 1, 2, 0],
            [0, 1, 1, 0]])
    """

    observed: Tensor  # [C, bins] int64, of observed entries, the lowest logits first
    positive: Tensor  # [C, bins] int64

    @classmethod
    def empty(cls, labels: int, bins: int = 2048) -> BinnedScores:
        if bins < 1:
            raise UserError(f"{bins} bins: expected at least one")
        return cls(*(torch.zeros(labels, bins, dtype=torch.int64) for _ in range(2)))

    @classmethod
    def of(cls, logits: Tensor, targets: Targets, bins: int = 2048) -> BinnedScores:
        counted = cls.empty(logits.shape[-1], bins)
        counted.count(logits, targets)
        return counted

    def count(self, logits: Tensor, targets: Targets) -> None:
        """Add a batch in place, which costs nothing for bins that it does not touch. Logits, not probabilities."""
        positive = Scored(logits, targets).positive
        labels, bins = self.observed.shape
        if logits.shape[1] != labels:
            raise UserError(f"logits of {logits.shape[1]} labels for bins of {labels}: expected one label list")
        share = (logits.detach().double().clamp(-LIMIT, LIMIT) + LIMIT) / (2 * LIMIT)
        place = (share * bins).long().clamp_(max=bins - 1).cpu() + torch.arange(labels) * bins  # [B, C]
        for table, chosen in ((self.observed, targets.observed), (self.positive, positive)):
            here = place[chosen.cpu()]
            table.view(-1).scatter_add_(0, here, torch.ones_like(here))


def binned_average_precision(counted: BinnedScores) -> Bracket:
    """The bracket of the exact average precision of each class.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.binned_average_precision(raretag.metrics.BinnedScores.of(logits, targets)).middle
    tensor([0.8333, 1.0000], dtype=torch.float64)
    """
    p = counted.positive.flip(1).cpu().double()  # [C, bins], best first
    n = counted.observed.flip(1).cpu().double() - p
    T, A = p.cumsum(1) - p, (p + n).cumsum(1) - (p + n)
    high = p * (T + p) / (A + p).clamp(min=1)
    integral = p - (A + n - T) * torch.log1p(p / (A + n + 0.5))
    low = torch.maximum(integral, p * (T + 1) / (A + n + 1))
    found = p.sum(1)
    ends = (torch.where(found > 0, end.sum(1) / found, torch.nan) for end in (low, high))
    return Bracket(*ends)
