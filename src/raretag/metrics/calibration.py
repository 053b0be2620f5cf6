"""Probabilities that mean what they say, and where to cut them.

Platt, "Probabilistic outputs for support vector machines", 1999: p_c = sigmoid(a_c z_c + b_c), here for each label. A
label with three positives cannot fix its own a and b. So they are fitted in three levels: one pair for all labels, one
for each group (head, medium, tail) near that of all, one for each label near that of its group. Near: a normal prior on
(log a, b) of deviation `spread` x (1, 4); counts beat it where there are many, and nothing is decided by hand. Unknown
labels have no part in it. Logits are counted in bins first, so that 10,000 labels take seconds.

Cuts: for the best F1 of a label, or for a wanted precision or recall. What is counted is evidence in [0, 1] for each
entry. With labels as evidence this is the usual search, which believes in every single positive. With calibrated
probabilities as evidence it is the best cut a model expects, which needs no positive at all. In between lies

    evidence = (1 - w) y + w p,    w = k / (n_c + k),    n_c observed positives of the label

so that a rare label follows the model, whose calibration knows the group and all labels, and a frequent one its own
items. `best_f1_thresholds` is the plain search without any of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.scored import blocks, positives

BINS = 64
SPREADS = (0.05, 0.2, 0.5)  # that are tried
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
    z, observed = logits.double(), targets.observed
    low, high = torch.where(observed, z, torch.inf).amin(0), torch.where(observed, z, -torch.inf).amax(0)
    width = ((high - low) / BINS).nan_to_num(1.0, 1.0, 1.0).clamp(min=1e-9)
    cell = ((z - low.nan_to_num(0.0, 0.0, 0.0)) / width).clamp(0, BINS - 1).long()  # [N, C]
    cell += fold[:, None] * BINS

    def summed(values: Tensor) -> Tensor:
        empty = torch.zeros(folds * BINS, z.shape[1], dtype=torch.float64)
        return empty.scatter_add_(0, cell, values.double()).view(folds, BINS, -1)

    items = summed(observed)
    mean = summed(torch.where(observed, z, 0.0)).sum(0) / items.sum(0).clamp(min=1)
    return mean, items, summed(targets.positive)


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

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> print(f"{raretag.metrics.calibration_error(torch.sigmoid(logits), targets, bins=2):.4f}")
    0.2782
    """
    p, order = probabilities.double()[targets.observed].sort()
    y = positives(targets)[targets.observed].double()[order]
    if not len(p):
        return float("nan")
    gaps = [(a.sum() - b.sum()).abs() for a, b in zip(p.tensor_split(bins), y.tensor_split(bins), strict=True)]
    return float(torch.stack(gaps).sum() / len(p))


def class_calibration_error(probabilities: Tensor, targets: Targets, bins: int = 10) -> Tensor:
    """The expected calibration error of each label [C]; NaN for one without an observed entry.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.class_calibration_error(torch.sigmoid(logits), targets, bins=2)
    tensor([0.0759, 0.3472], dtype=torch.float64)
    """
    one_by_one = [
        calibration_error(probabilities[:, [c]], Targets(targets.value[:, [c]], targets.observed[:, [c]]), bins)
        for c in range(probabilities.shape[1])
    ]
    return torch.tensor(one_by_one, dtype=torch.float64)


Goal = Literal["f1", "precision", "recall"]
EVERY = 1e-3  # how far below the lowest score a cut lies that lets everything pass


@dataclass(frozen=True, slots=True)
class Ranked:
    """Entries of each label, best score first, one label per row; what is not observed comes last."""

    score: Tensor  # [C, N] float64, -inf where not observed
    below: Tensor  # [C, N] the next score, -inf after the last
    possible: Tensor  # [C, N] bool: a cut may lie after the entry, as equal scores fall on one side together
    positive: Tensor  # [C, N] bool
    observed: Tensor  # [C] int64, so many entries

    @classmethod
    def of(cls, scores: Tensor, observed: Tensor, positive: Tensor) -> Ranked:
        """From [N, C]."""
        score, row = torch.where(observed, scores.double(), -torch.inf).T.contiguous().sort(1, descending=True)
        below = torch.cat([score[:, 1:], torch.full_like(score[:, :1], -torch.inf)], 1)
        return cls(score, below, score > below, (positive & observed).T.gather(1, row), observed.sum(0))


def best_cuts(ranked: Ranked, evidence: Tensor, goal: Goal, wanted: float | None = None) -> Tensor:
    """[C] float64: choose what scores higher. NaN: nothing is known of the label; inf: never, the goal is out of reach.

    `evidence` [C, N] in ranked order; 0 for entries that are not observed.
    """
    possible = ranked.possible
    hits = evidence.double().cumsum(1)
    total = hits[:, -1:]
    chosen = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64)
    if goal == "f1":
        place = torch.where(possible, 2 * hits / (chosen + total), -1.0).argmax(1)
        reached = total[:, 0] > 0
    elif goal == "precision":
        good = possible & (hits >= _share(wanted, goal) * chosen)
        place, reached = good.shape[1] - 1 - good.flip(1).int().argmax(1), good.any(1)  # the last good one
    else:
        good = possible & (hits >= _share(wanted, goal) * total)
        place, reached = good.int().argmax(1), good.any(1) & (total[:, 0] > 0)
    high, low = (values.gather(1, place[:, None])[:, 0] for values in (ranked.score, ranked.below))
    cut = torch.where(low == -torch.inf, high - EVERY, (high + low) / 2)
    return torch.where(ranked.observed > 0, torch.where(reached, cut, torch.inf), torch.nan)


def _share(wanted: float | None, goal: str) -> float:
    if wanted is None or not 0 < wanted <= 1:
        raise UserError(f"the wanted {goal} is {wanted}; expected a share above 0 and up to 1, such as 0.8")
    return wanted - 1e-12  # sums are rounded


DEFAULT_THRESHOLD = 0.5  # where nothing is known


def best_f1_thresholds(probabilities: Tensor, targets: Targets) -> Tensor:
    """The threshold with the best F1 of each label [C], for decisions `probability > threshold`.

    A label without observed positives, which has no best threshold, takes the one that is best for all labels together.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.best_f1_thresholds(torch.sigmoid(logits), targets)
    tensor([0.3775, 0.4217], dtype=torch.float64)
    """
    p = probabilities.double()
    if p.numel() and not (p.min() >= 0 and p.max() <= 1):
        raise UserError(
            f"probabilities lie between {p.min():.3g} and {p.max():.3g}; expected [0, 1]: apply sigmoid first"
        )
    together = _best(p[targets.observed], targets.value[targets.observed] > 0.5)
    common = DEFAULT_THRESHOLD if together is None else together
    found = torch.full((p.shape[1],), common, dtype=torch.float64)
    for label in range(p.shape[1]):
        observed = targets.observed[:, label]
        best = _best(p[observed, label], targets.value[observed, label] > 0.5)
        if best is not None:
            found[label] = best
    return found


def _best(p: Tensor, positive: Tensor) -> float | None:
    if not positive.any():
        return None
    order = torch.argsort(p, descending=True)
    ranked, hits = p[order], positive[order].cumsum(0)
    decided = torch.arange(1, len(p) + 1)
    f1 = 2.0 * hits / (decided + positive.sum())
    last_of_tie = torch.ones(len(p), dtype=torch.bool)
    last_of_tie[:-1] = ranked[:-1] > ranked[1:]  # equal probabilities fall on one side together
    cut = int(torch.where(last_of_tie, f1, -1.0).argmax())
    below = ranked[cut + 1] if cut + 1 < len(p) else ranked[cut] - 1e-6  # just below the lowest: decide for all
    return float((ranked[cut] + below) / 2.0)


@dataclass(frozen=True, slots=True)
class Tuned:
    """Calibration and thresholds: p_c = sigmoid(scale_c z_c + shift_c), chosen where p_c > threshold_c."""

    scale: Tensor  # [C] float64, above 0
    shift: Tensor  # [C] float64
    thresholds: Tensor  # [C] float64, of calibrated probabilities
    notes: dict[str, Any]  # how they were found

    def calibrated(self, logits: Tensor) -> Tensor:
        """Logits whose sigmoid is the calibrated probability."""
        return logits.double() * self.scale + self.shift


def calibrations(
    counted: Counted, groups: Mapping[str, Tensor], folds: int, calibrate: bool
) -> tuple[float | None, list[Tensor], Tensor]:
    """The spread, the pairs without each fold, and the pair of all items; none of it if that is worse than nothing."""
    same = torch.zeros(counted.logit.shape[1], 2, dtype=torch.float64)
    if not calibrate:
        return None, [same] * folds, same
    best: tuple[float, float | None, list[Tensor]]
    best = (sum(log_loss(counted, same, fold) for fold in range(folds)), None, [same] * folds)
    for spread in SPREADS:
        pairs = [platt(counted, groups, spread, fold) for fold in range(folds)]
        loss = sum(log_loss(counted, pair, fold) for fold, pair in enumerate(pairs))
        if loss < best[0]:
            best = (loss, spread, pairs)
    _, chosen, pairs = best
    return chosen, pairs, same if chosen is None else platt(counted, groups, chosen)
