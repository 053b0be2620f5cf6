r"""Logistic regression of every label at once: the minimum, not a number of steps towards it.

For each label, with y in {0, 1}, weights s of the items and strength K (scikit-learn's C)::

    f(w, b) = 1/2 |w|^2 + K sum_i s_i log(1 + exp(-(2 y_i - 1) (w x_i + b)))

The labels do not know of each other, so L-BFGS (Nocedal and Wright, "Numerical Optimization", ch. 7) takes its steps
for all of them together: one product with the features a step, and a step length for each label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

_PAIRS = 8  # of steps and changes of the gradient that shape the next step


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


def balanced(positive: Tensor, counted: Tensor | None = None) -> Tensor:
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
