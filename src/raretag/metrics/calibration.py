"""Probabilities that mean what they say: how far off they are, and Platt scaling that few positives cannot mislead.

Platt, "Probabilistic outputs for support vector machines", 1999: p_c = sigmoid(a_c z_c + b_c), here for each label.

A label with three positives cannot tell its own a and b. So they are fitted in three levels: one pair for all labels,
one for each group (head, medium, tail) near that of all, one for each label near that of its group. Near: a normal
prior on (log a, b) of deviation `spread` x (1, 4); counts beat it where there are many, and nothing is decided by hand.
Unknown labels have no part in it. Logits are counted in bins first, so that 10,000 labels take seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.targets import Targets
from raretag.metrics.order import blocks
from raretag.metrics.scored import positives

BINS = 64
ANYWHERE = 2.0  # spread of the pair for all labels around the identity
_STEPS = 30


@dataclass(frozen=True, slots=True)
class Counted:
    """Logits of each label in bins of equal width; folds of items are counted apart."""

    logit: Tensor  # [BINS, C] float64, the mean in each bin
    items: Tensor  # [F, BINS, C] float64, observed
    positive: Tensor  # [F, BINS, C] float64

    @classmethod
    def of(cls, logits: Tensor, targets: Targets, fold: Tensor, folds: int) -> Counted:
        labels = logits.shape[1]
        mean = torch.zeros(BINS, labels, dtype=torch.float64)
        items, hits = (torch.zeros(folds, BINS, labels, dtype=torch.float64) for _ in range(2))
        for block in blocks(labels, len(logits)):
            some = Targets(targets.value[:, block], targets.observed[:, block])
            mean[:, block], items[:, :, block], hits[:, :, block] = _binned(logits[:, block], some, fold, folds)
        return cls(mean, items, hits)

    def without(self, fold: int | None) -> tuple[Tensor, Tensor]:
        """Items and positives [BINS, C] of all other folds."""
        if fold is None:
            return self.items.sum(0), self.positive.sum(0)
        return self.items.sum(0) - self.items[fold], self.positive.sum(0) - self.positive[fold]


def _binned(logits: Tensor, targets: Targets, fold: Tensor, folds: int) -> tuple[Tensor, Tensor, Tensor]:
    z, seen = logits.double(), targets.observed
    low, high = torch.where(seen, z, torch.inf).amin(0), torch.where(seen, z, -torch.inf).amax(0)
    width = ((high - low) / BINS).nan_to_num(1.0, 1.0, 1.0).clamp(min=1e-9)
    cell = ((z - low.nan_to_num(0.0, 0.0, 0.0)) / width).clamp(0, BINS - 1).long()  # [N, C]
    cell += fold[:, None] * BINS

    def summed(values: Tensor) -> Tensor:
        empty = torch.zeros(folds * BINS, z.shape[1], dtype=torch.float64)
        return empty.scatter_add_(0, cell, values.double()).view(folds, BINS, -1)

    items = summed(seen)
    mean = summed(torch.where(seen, z, 0.0)).sum(0) / items.sum(0).clamp(min=1)
    return mean, items, summed(positives(targets))


def platt(counted: Counted, groups: Mapping[str, Tensor], spread: float, fold: int | None = None) -> Tensor:
    """[C, 2] float64: log a and b of each label, from all folds but one."""
    items, positive = counted.without(fold)
    labels = counted.logit.shape[1]
    member = torch.zeros(labels, dtype=torch.int64)  # labels of no group are one more group
    for number, classes in enumerate(groups.values(), start=1):
        member[classes.cpu()] = number
    start = torch.zeros(1, 2, dtype=torch.float64)
    overall = _nearest(counted.logit, items, positive, member * 0, start, ANYWHERE)
    grouped = _nearest(counted.logit, items, positive, member, overall.expand(len(groups) + 1, 2), spread)
    return _nearest(counted.logit, items, positive, torch.arange(labels), grouped[member], spread)


def _nearest(z: Tensor, items: Tensor, positive: Tensor, member: Tensor, prior: Tensor, spread: float) -> Tensor:
    """The most probable pairs [M, 2] by Newton's steps; label c belongs to pair member[c]."""
    trust = torch.tensor([1.0, 1.0 / 16], dtype=torch.float64) / spread**2
    pair = prior.clone()

    def summed(values: Tensor) -> Tensor:  # [BINS, C] to [M]
        return torch.zeros(len(prior), dtype=torch.float64).index_add_(0, member, values.sum(0))

    for _ in range(_STEPS):
        x = z * pair[member, 0].exp()  # [BINS, C]
        p = torch.sigmoid(x + pair[member, 1])
        error, weight = items * p - positive, items * p * (1 - p)
        slope = torch.stack([summed(error * x), summed(error)], 1) + trust * (pair - prior)
        aa, bb = summed(weight * x * x) + trust[0], summed(weight) + trust[1]
        ab = summed(weight * x)
        step = torch.stack([bb * slope[:, 0] - ab * slope[:, 1], aa * slope[:, 1] - ab * slope[:, 0]], 1)
        step = (step / (aa * bb - ab * ab)[:, None]).clamp(-0.5, 0.5)  # far from the solution Newton overshoots
        pair = pair - step
        if step.abs().max() < 1e-6:
            break
    return pair


def log_loss(counted: Counted, pair: Tensor, fold: int) -> float:
    """Of one fold, summed over its observed entries."""
    u = counted.logit * pair[:, 0].exp() + pair[:, 1]
    losses = torch.nn.functional.softplus(u) * counted.items[fold] - u * counted.positive[fold]
    return float(losses.sum())


def calibration_error(probabilities: Tensor, targets: Targets, bins: int = 15) -> float:
    """Expected calibration error: |mean probability - share of positives|, over bins of equally many entries.

    All labels together; unknown entries are left out. NaN if nothing is observed.
    """
    p, order = probabilities.double()[targets.observed].sort()
    y = positives(targets)[targets.observed].double()[order]
    if not len(p):
        return float("nan")
    gaps = [(a.sum() - b.sum()).abs() for a, b in zip(p.tensor_split(bins), y.tensor_split(bins), strict=True)]
    return float(torch.stack(gaps).sum() / len(p))


def class_calibration_error(probabilities: Tensor, targets: Targets, bins: int = 10) -> Tensor:
    """The same for each label [C]; NaN for one without an observed entry."""
    one_by_one = [
        calibration_error(probabilities[:, [c]], Targets(targets.value[:, [c]], targets.observed[:, [c]]), bins)
        for c in range(probabilities.shape[1])
    ]
    return torch.tensor(one_by_one, dtype=torch.float64)
