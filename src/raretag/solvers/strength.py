"""How much a solved logistic regression may trust its training items: one strength, by held-out folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.solvers import logistic
from raretag.solvers.gathered import rows_of

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # times the mean of |x|^2: K if rows have length 1


@dataclass(frozen=True)
class Choice:
    strength: float  # K
    tried: Tensor  # mean average precision on held-out folds, 0 to 1, of each of STRENGTHS; nan if not tried
    held_out: Tensor  # [N, C] logits of each item, by a solution that has not seen it


def choose(
    x: Any,
    positive: Tensor,
    folds: int,
    seed: int,
    counted: Tensor | None = None,
    tell: Callable[[float], None] = lambda share: None,
) -> Choice:
    """The strength with the best mean average precision, along a path that ends when that fell twice.

    `counted` [N, C] bool: what is trained on. All entries are judged, as if what is not positive were negative. `tell`
    hears which share of the path is done.
    """
    if len(positive) < 2:
        raise UserError(
            f"{len(positive)} training items; logistic regression holds some of them out and wants 2 or more"
        )
    fold = chance.permutation(len(positive), seed, 7) % folds  # [N]
    parts = [((fold != k).nonzero().flatten(), (fold == k).nonzero().flatten()) for k in range(folds)]
    starts: list[Tensor | None] = [None] * folds
    scale = len(positive) / max(float((x * x).sum()), 1e-12)
    tried = torch.full((len(STRENGTHS),), torch.nan)
    best = Choice(scale * STRENGTHS[0], tried, torch.zeros_like(positive))
    for at, one in enumerate(STRENGTHS):
        z = torch.zeros_like(positive)
        for k, (rest, held) in enumerate(parts):
            used = None if counted is None else counted[rest]
            starts[k] = theta = solved(rows_of(x, rest), positive[rest], scale * one, starts[k], 1e-3, used)
            z[held] = logistic.product(rows_of(x, held), theta[:, :-1]) + theta[:, -1]
            tell((at * folds + k + 1) / (len(STRENGTHS) * folds))
        tried[at] = mean_precision(z, positive)
        if not (tried[:at] >= tried[at]).any():
            best = Choice(scale * one, tried, z)
        if at >= 2 and tried[at] < tried[at - 1] < tried[at - 2]:
            break
    return best


def solved(
    x: Any,
    positive: Tensor,
    strength: float,
    start: Tensor | None = None,
    tolerance: float = 1e-4,
    counted: Tensor | None = None,
) -> Tensor:
    """theta [C, D + 1] of all labels; one that has no positives, or nothing else, gets its frequency as bias."""
    weight = logistic.balanced(positive, counted)
    unit = min(1.0, sqrt(max(float((x * x).sum()) / len(positive), 1e-24)))  # short rows would pass for solved at once
    units = torch.ones(x.shape[1] + 1).to(positive)
    units[:-1] = unit
    problem = logistic.Problem(x if unit == 1 else x / unit, positive, weight, strength * unit**2)
    theta = logistic.solve(problem, start if start is None else start * units, tolerance=tolerance) / units
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


def told(tried: Tensor) -> dict[str, float]:
    """`Choice.tried` for the record."""
    return {f"{strength:g}": float(value) for strength, value in zip(STRENGTHS, tried, strict=True) if value == value}
