r"""Logistic regression of every label at once: the minimum, not a number of steps towards it; strength by folds.

For each label, with y in {0, 1}, weights s of the items and strength K (scikit-learn's C)::

    f(w, b) = 1/2 |w|^2 + K sum_i s_i log(1 + exp(-(2 y_i - 1) (w x_i + b)))

The labels do not know of each other, so L-BFGS (Nocedal and Wright, "Numerical Optimization", ch. 7) takes its steps
for all of them together: one product with the features a step, and a step length for each label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from raretag.core import chance, processes
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.targets import Targets

_PAIRS = 8  # of steps and changes of the gradient that shape the next step
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # times the mean of |x|^2: K if rows have length 1
Tried = dict[str, float]  # mean average precision on held-out folds, 0 to 1, of each strength that was tried
_SPARSE = 0.2  # features of which no more are filled are kept as a sparse matrix


@dataclass(frozen=True)
class Problem:
    features: Any  # [N, D], a tensor or scipy's csr_array
    positive: Tensor  # [N, C], 1 or 0
    weight: Tensor  # s [N, C]; 0 leaves an entry out
    strength: float  # K

    @property
    def penalty(self) -> float:
        """Of 1/2 |w|^2, once the objective is divided by K N."""
        return 1 / (self.strength * len(self.positive))

    def logits(self, theta: Tensor) -> Tensor:
        """theta [C, D + 1]: weights and then the bias -> [N, C]."""
        return product(self.features, theta[:, :-1]) + theta[:, -1]

    def value(self, theta: Tensor, z: Tensor) -> Tensor:
        """f / (K N) [C]."""
        loss = self.weight * softplus(torch.where(self.positive > 0, -z, z))
        return loss.mean(0) + 0.5 * self.penalty * (theta[:, :-1] ** 2).sum(1)

    def gradient(self, theta: Tensor, z: Tensor) -> Tensor:
        error = self.weight * (torch.sigmoid(z) - self.positive) / len(z)  # [N, C]
        of_weights = product(self.features.T, error.T.contiguous()).T + self.penalty * theta[:, :-1]
        return torch.cat([of_weights, error.sum(0)[:, None]], 1)


def balanced_weights(positive: Tensor, counted: Tensor | None = None) -> Tensor:
    """N / (2 n) for both sides, so that they weigh the same [N, C]; 0 for a label of which a side is empty.

    `counted` [N, C] bool: entries that are left out weigh nothing, and the others of their side more.
    """
    negative = 1 - positive if counted is None else (1 - positive) * counted
    absent, present = negative.sum(0), positive.sum(0)
    both = (absent > 0) & (present > 0)
    sides = torch.where(both, len(positive) / (2 * torch.stack([absent, present]).clamp(min=1)), 0.0)
    return sides[0] * negative + sides[1] * positive


def solve(problem: Problem, start: Tensor | None = None, *, tolerance: float = 1e-4, most: int = 200) -> Tensor:
    """theta [C, D + 1] at which no entry of the gradient of f / (K N) exceeds the tolerance, or after `most` steps."""
    labels, width = problem.positive.shape[1], problem.features.shape[1]
    theta = torch.zeros(labels, width + 1).to(problem.positive) if start is None else start.clone()
    z = problem.logits(theta)
    value, gradient = problem.value(theta, z), problem.gradient(theta, z)
    pairs: list[tuple[Tensor, Tensor]] = []
    for _ in range(most):
        if float(gradient.abs().max()) <= tolerance:
            break
        step = -_shaped(gradient, pairs)  # [C, D + 1]
        slope = (step * gradient).sum(1)
        z_step = problem.logits(step)
        length = torch.ones(labels).to(theta)
        for _ in range(30):  # half as far, until the value has fallen enough
            moved = theta + length[:, None] * step
            z_moved = z + length * z_step
            new = problem.value(moved, z_moved)
            short = new > value + 1e-4 * length * slope + 1e-7 * value.abs()
            if not short.any():
                break
            length = torch.where(short, length / 2, length)
        before, theta, z, value = theta, moved, z_moved, new
        old, gradient = gradient, problem.gradient(theta, z)
        pairs = [*pairs[1 - _PAIRS :], (theta - before, gradient - old)]
    return theta


def _shaped(gradient: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The inverse Hessian, as the last steps show it, times the gradient: for each label on its own."""
    if not pairs:
        first: Tensor = gradient / torch.linalg.vector_norm(gradient, dim=1, keepdim=True).clamp(min=1.0)
        return first
    found, turns = gradient.clone(), []
    for step, change in reversed(pairs):
        inner = (step * change).sum(1)
        inverse = torch.where(inner > 0, 1 / inner, 0.0)  # a label that stands still has nothing to say
        along = inverse * (step * found).sum(1)
        found -= along[:, None] * change
        turns.append((step, change, inverse, along))
    step, change = pairs[-1]
    inner, squares = (step * change).sum(1), (change * change).sum(1)
    found *= torch.where(inner > 0, inner / squares, 1.0)[:, None]
    for step, change, inverse, along in reversed(turns):
        found += (along - inverse * (change * found).sum(1))[:, None] * step
    return found


def product(features: Any, rows: Tensor) -> Tensor:
    """features [N, D] times rows [C, D] -> [N, C]."""
    if isinstance(features, Tensor):
        return features @ rows.T
    return torch.from_numpy(features @ rows.T.contiguous().numpy())


def gathered(features: Iterator[tuple[Tensor, Targets]]) -> tuple[Any, Tensor, Tensor]:
    """Features [N, D], sparse if they mostly are; which labels are positive [N, C] float32; which are observed."""
    from scipy import sparse

    blocks: list[Any] = []
    positives, observed = [], []
    thin = alone = processes.count() == 1
    for x, targets in features:
        x = x.detach().float()
        x = x.cpu() if alone else x  # several processes exchange rows where their devices are
        thin = thin and int((x != 0).sum()) <= _SPARSE * x.numel()
        if not thin:
            blocks = [block if isinstance(block, Tensor) else torch.from_numpy(block.toarray()) for block in blocks]
        blocks.append(sparse.csr_array(x.numpy()) if thin else x)
        positives.append((targets.observed & (targets.positive > 0.5)).float())
        observed.append(targets.observed)
    x = sparse.csr_array(sparse.vstack(blocks)) if thin else processes.rows(torch.cat(blocks)).cpu()
    return x, processes.rows(torch.cat(positives)).cpu(), processes.rows(torch.cat(observed)).cpu()


def rows_of(x: Any, rows: Tensor) -> Any:
    return x[rows] if isinstance(x, Tensor) else x[rows.numpy()]


def dense_rows(x: Any, rows: Tensor) -> Tensor:
    found = rows_of(x, rows)
    return found if isinstance(found, Tensor) else torch.from_numpy(found.toarray())


@dataclass(frozen=True)
class Choice:
    strength: float  # K
    tried: Tried
    held_out: Tensor  # [N, C] logits of each item, by a solution that has not seen it


def choose(
    x: Any,
    positive: Tensor,
    folds: int,
    seed: int,
    counted: Tensor | None = None,
    listener: Listener = SILENT,
) -> Choice:
    """The strength with the best mean average precision, along a path that ends when that fell twice.

    `counted` [N, C] bool: what is trained on. All entries are judged, as if what is not positive were negative. The
    `listener` gets the share of the path that is done.
    """
    if len(positive) < 2:
        raise UserError(
            f"{len(positive)} training items; logistic regression holds some of them out and wants 2 or more"
        )
    fold = chance.permutation(len(positive), seed, 7) % folds  # [N]
    parts = [((fold != k).nonzero().flatten(), (fold == k).nonzero().flatten()) for k in range(folds)]
    starts: list[Tensor | None] = [None] * folds
    scale = len(positive) / max(float((x * x).sum()), 1e-12)
    tried: list[float] = []
    best, held_out = STRENGTHS[0], torch.zeros_like(positive)
    for at, one in enumerate(STRENGTHS):
        z = torch.zeros_like(positive)
        for k, (rest, held) in enumerate(parts):
            used = None if counted is None else counted[rest]
            starts[k] = theta = solved(rows_of(x, rest), positive[rest], scale * one, starts[k], 1e-3, used)
            z[held] = product(rows_of(x, held), theta[:, :-1]) + theta[:, -1]
            listener.progress((at * folds + k + 1) / (len(STRENGTHS) * folds))
        precision = float(mean_precision(z, positive))
        if not any(before >= precision for before in tried):
            best, held_out = one, z
        tried.append(precision)
        if at >= 2 and tried[at] < tried[at - 1] < tried[at - 2]:
            break
    by_strength = {f"{one:g}": value for one, value in zip(STRENGTHS, tried, strict=False) if value == value}
    return Choice(scale * best, by_strength, held_out)


def solved(
    x: Any,
    positive: Tensor,
    strength: float,
    start: Tensor | None = None,
    tolerance: float = 1e-4,
    counted: Tensor | None = None,
) -> Tensor:
    """theta [C, D + 1] of all labels; one that has no positives, or nothing else, gets its frequency as bias."""
    weight = balanced_weights(positive, counted)
    unit = min(1.0, sqrt(max(float((x * x).sum()) / len(positive), 1e-24)))  # short rows would pass for solved at once
    units = torch.ones(x.shape[1] + 1).to(positive)
    units[:-1] = unit
    problem = Problem(x if unit == 1 else x / unit, positive, weight, strength * unit**2)
    theta = solve(problem, start if start is None else start * units, tolerance=tolerance) / units
    empty = (weight == 0).all(0)
    odds = (positive.sum(0) + 0.5) / (len(positive) - positive.sum(0) + 0.5)
    theta[empty, -1] = odds.log()[empty]
    return theta


def mean_precision(z: Tensor, positive: Tensor) -> Tensor:
    """Mean over the labels that have positives of the average precision of z [N, C]."""
    hit = positive.gather(0, torch.argsort(z, dim=0, descending=True, stable=True))
    precision = hit.cumsum(0) / torch.arange(1, len(z) + 1).to(z)[:, None]
    some = positive.sum(0) > 0
    return ((precision * hit).sum(0) / positive.sum(0))[some].mean()
