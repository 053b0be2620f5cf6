r"""Average precision of more scores than memory can hold, and how wrong it can be.

Logits are counted in bins, label by label, so memory is [C, bins] whatever the number of items. The order within a bin
is forgotten. With T positives among A items above a bin that holds p positives and n negatives, the precisions at its
positives sum up to

    at most   p (T + p) / (A + p)                                       positives first, all in one tie
    at least  sum_{j=1..p} f(j),  f(x) = (T + x) / (A + n + x)          negatives first, no ties

and f grows and is concave, so that this sum is at least p f(1) and at least

    integral of f from 1/2 to p + 1/2  =  p - (A + n - T) log(1 + p / (A + n + 1/2))

Both ends are summed over bins: the exact AP lies between them. Not an estimate of the error, but a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.scored import Scored
from raretag.metrics.sums import Sums

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
    p = counted.positive.flip(1).cpu().double()  # [C, bins], best first
    n = counted.observed.flip(1).cpu().double() - p
    T, A = p.cumsum(1) - p, (p + n).cumsum(1) - (p + n)
    high = p * (T + p) / (A + p).clamp(min=1)
    integral = p - (A + n - T) * torch.log1p(p / (A + n + 0.5))
    low = torch.maximum(integral, p * (T + 1) / (A + n + 1))
    found = p.sum(1)
    ends = (torch.where(found > 0, end.sum(1) / found, torch.nan) for end in (low, high))
    return Bracket(*ends)
