r"""Held-out folds: how items are assigned, how scores of different folds are compared, and which strength is chosen.

Each fold's solution has its own level and spread, so its held-out scores are standardised before they are pooled.
Otherwise the pooled order would be that of the folds, and weak regularisation would look better than it is::

    o_ic = (z_ic - m_fc) / d_fc        m, d: mean and deviation of z_c over the items i of fold f
    o_ic = 0                           where d is 0: the other folds had nothing to learn label c from

A strength is judged by the average precision of o, a mean over labels c with n_c >= 2 positives::

    J = sum sqrt(n_c) AP_c / sum sqrt(n_c)

A label with three positives has an average precision that is mostly luck, and rare labels are most of the labels; with
the root, they count less where something is chosen, though not as little as their positives are few (docs/log.md).
Numbers that are reported are plain means. The differences of two strengths, label by label, have a standard error. Of
the strengths within half of it of the best one, the strongest regularisation is taken, because the best one is partly
best by luck, and every fold has fewer positives than the final fit will have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.listener import Listener, Part

WITHIN = 0.5  # standard errors that a simpler choice may be below the best
CLEARLY = 2.0  # standard errors that are a fall, not luck
FLAT = 3  # strengths in a row that bring nothing
LABELS_AT_ONCE = 2**21  # numbers that are sorted together; each takes 50 bytes meanwhile


def deal(positive: Tensor, folds: int, seed: int) -> Tensor:
    """[N] the fold of each item: rare labels first, each of their items to the fold that has fewest of that label.

    Time grows with the number of positives, times folds.
    """
    items, labels = positive.shape
    order = chance.permutation(items, seed, 7)
    places = positive[order].nonzero()  # rows in the shuffled order, [positives, 2]
    of_item: list[list[int]] = [[] for _ in range(items)]
    of_label: list[list[int]] = [[] for _ in range(labels)]
    for item, label in places.tolist():
        of_item[item].append(label)
        of_label[label].append(item)
    fold, sizes = [-1] * items, [0] * folds
    held = [[0] * folds for _ in range(labels)]

    def put(item: int, counts: list[int]) -> None:
        best = min(range(folds), key=lambda one: (counts[one], sizes[one]))
        fold[item] = best
        sizes[best] += 1
        for label in of_item[item]:
            held[label][best] += 1

    for label in sorted(range(labels), key=lambda one: len(of_label[one])):
        for item in of_label[label]:
            if fold[item] < 0:
                put(item, held[label])
    for item in range(items):
        if fold[item] < 0:
            put(item, sizes)
    dealt = torch.empty(items, dtype=torch.int64)
    dealt[order] = torch.tensor(fold)
    return dealt


@dataclass(frozen=True)
class HeldOut:
    """Scores of every item by solutions that were not fitted to it, standardised fold by fold."""

    scores: Tensor  # o [N, C]
    mean: Tensor  # [C] of z: mean over the folds that knew the label of m_fc
    spread: Tensor  # [C] likewise of d_fc; 0 if no fold knew the label


def standardised(z: Tensor, fold: Tensor) -> HeldOut:
    """Of raw held-out scores z [N, C]."""
    scores = torch.zeros_like(z)
    means, spreads, known = (torch.zeros(z.shape[1]).to(z) for _ in range(3))
    for one in fold.unique():
        rows = (fold == one).nonzero().flatten()
        part = z[rows]
        mean, spread = part.mean(0), part.std(0, unbiased=False)
        knows = spread > 1e-6 + 1e-4 * mean.abs()
        scores[rows] = torch.where(knows, (part - mean) / torch.where(knows, spread, 1.0), 0.0)
        means, spreads, known = means + knows * mean, spreads + knows * spread, known + knows
    known = known.clamp(min=1)
    return HeldOut(scores, means / known, spreads / known)


@dataclass(frozen=True)
class Judge:
    """Average precision of held-out scores, label by label, on what is counted."""

    positive: Tensor  # [N, C] bool
    counted: Tensor | None  # [N, C] bool; None: everything
    judged: Tensor = field(init=False)  # [C] bool
    weights: Tensor = field(init=False)  # [judged labels] their sum is 1

    def __post_init__(self) -> None:
        count = self.positive.sum(0)
        some = count >= 2
        some = some if bool(some.any()) else count >= 1
        roots = count[some].double().sqrt()
        object.__setattr__(self, "judged", some)
        object.__setattr__(self, "weights", roots / roots.sum())

    def precisions(self, scores: Tensor) -> Tensor:
        """[judged labels] average precision, float64."""
        found, labels = [], self.judged.nonzero().flatten()
        places = torch.arange(1, len(scores) + 1, dtype=torch.float64)[:, None]
        for part in labels.split(max(1, LABELS_AT_ONCE // len(scores))):
            z, y = scores[:, part], self.positive[:, part]
            if self.counted is not None:  # what is left out comes last, where it changes no precision
                z = torch.where(self.counted[:, part], z, -torch.inf)
            hit = y.gather(0, torch.argsort(z, dim=0, descending=True, stable=True)).double()
            found.append((hit.cumsum(0) / places * hit).sum(0) / hit.sum(0))
        return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)

    def worth(self, precisions: Tensor) -> float:
        """J, by which something is chosen."""
        return float((self.weights * precisions).sum())

    def behind(self, best: Tensor, other: Tensor) -> tuple[float, float]:
        """How far J of the other is below that of the best, and the standard error of that over labels."""
        apart = best - other
        below = (self.weights * apart).sum()
        return float(below), float((self.weights * (apart - below)).norm())

    def is_close(self, best: Tensor, other: Tensor) -> bool:
        below, error = self.behind(best, other)
        return below <= WITHIN * error + 1e-12


def mean(precisions: Tensor) -> float:
    return float(precisions.mean()) if len(precisions) else 0.0


@dataclass(frozen=True)
class Tried:
    strength: float
    held_out: HeldOut
    precisions: Tensor  # [judged labels]


def along_path(
    fit: Callable[[float, Listener], Tensor],
    strengths: Sequence[float],
    fold: Tensor,
    judge: Judge,
    listener: Listener,
) -> tuple[Tried, dict[str, float]]:
    """The stiffest strength that is close to the best, and the mean average precision of each that was tried.

    `fit` gives the held-out scores [N, C] of a strength and reports progress to a listener. The path goes from stiff
    to loose. It ends when the precision fell twice, or once by CLEARLY standard errors, or when the last FLAT strengths
    are all no better than close to a stiffer one. Scores that are not close to the best so far are let go.
    """
    best: Tried | None = None
    close: list[Tried] = []
    means: list[float] = []
    worth: list[float] = []
    for at, strength in enumerate(strengths):
        part = Part(listener, at / len(strengths), (at + 1) / len(strengths))
        held_out = standardised(fit(strength, part), fold)
        new = Tried(strength, held_out, judge.precisions(held_out.scores))
        means.append(mean(new.precisions))
        worth.append(judge.worth(new.precisions))
        if best is None or worth[-1] > judge.worth(best.precisions):
            best = new
        close = [one for one in [*close, new] if judge.is_close(best.precisions, one.precisions)]
        part.progress(1.0)
        below, error = judge.behind(best.precisions, new.precisions)
        fell = below > CLEARLY * error + 1e-12 or (at >= 2 and worth[at] < worth[at - 1] < worth[at - 2])
        if fell or at - strengths.index(close[0].strength) >= FLAT:
            break
    return close[0], {f"{one:g}": value for one, value in zip(strengths, means, strict=False)}
