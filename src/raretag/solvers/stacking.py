"""From scores out of fold to one answer: how loud each learner is, what companions add, and the sum of all fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from raretag.solvers.companions import Companions, held_out_companions
from raretag.solvers.folds import Judge, Tried, behind, is_close, mean
from raretag.solvers.learners import Fitted

FAINT = 0.02  # of the whole: a share that is not worth a fit
COMPANIONS = (0.0, 0.1, 0.2, 0.4)  # a
SMALLEST_ERROR = 1e-4  # of a difference of average precisions


@dataclass(frozen=True)
class Stack:
    shares: dict[str, float]  # of the learners that take part; their sum is 1
    companions: float  # a
    scores: Tensor  # [N, C] out of fold
    precision: float  # mean average precision of these
    tried: dict[str, float]  # the same for each a


def stacked(tried: Mapping[str, Tried], plain: str, judge: Judge, fold: Tensor) -> Stack:
    """Shares by how close each learner is to the best, then companions; `plain` alone if that is better."""
    shares = shares_of({name: one.precisions for name, one in tried.items()})
    scores = added(shares, {name: one.held_out.scores for name, one in tried.items()})
    moved = held_out_companions(scores, judge.positive, fold)
    precisions = {a: judge.precisions(scores + a * moved) for a in COMPANIONS}
    best = max(precisions.values(), key=mean)
    a = max(one for one, found in precisions.items() if is_close(best, found))
    means = {f"{one:g}": mean(found) for one, found in precisions.items()}
    alone = mean(tried[plain].precisions)
    if mean(precisions[a]) < alone:
        return Stack({plain: 1.0}, 0.0, tried[plain].held_out.scores, alone, means)
    return Stack(shares, a, scores + a * moved, mean(precisions[a]), means)


def shares_of(precisions: Mapping[str, Tensor]) -> dict[str, float]:
    """exp(-t) of each learner, t its distance to the best in standard errors; faint ones are left out."""
    best = max(precisions, key=lambda name: mean(precisions[name]))
    loud = {}
    for name, found in precisions.items():
        below, error = behind(precisions[best], found)
        loud[name] = exp(-below / max(error, SMALLEST_ERROR))
    loud = {name: one for name, one in loud.items() if one >= FAINT * sum(loud.values())}
    return {name: one / sum(loud.values()) for name, one in loud.items()}


def added(shares: Mapping[str, float], scores: Mapping[str, Tensor]) -> Tensor:
    total = torch.zeros_like(next(iter(scores.values())))
    for name, share in shares.items():
        total.add_(scores[name], alpha=share)
    return total


def summed(stack: Stack, fits: Mapping[str, Fitted], tried: Mapping[str, Tried], positive: Tensor) -> Fitted:
    """s + a P s of the scores s = sum share (z - mean) / spread, as one line and one kernel."""
    weight = torch.zeros_like(next(iter(fits.values())).weight)
    bias = torch.zeros(len(weight))
    of_items: Tensor | None = None
    for name, share in stack.shares.items():
        held, fit = tried[name].held_out, fits[name]
        factor = torch.where(held.spread > 0, share / torch.where(held.spread > 0, held.spread, 1.0), 0.0)  # [C]
        weight += factor[:, None] * fit.weight
        bias += factor * (fit.bias - held.mean)
        if fit.of_items is not None:
            of_items = factor[:, None] * fit.of_items
    if stack.companions:
        companions = Companions(positive)
        weight += stack.companions * companions.of(weight)
        bias += stack.companions * companions.of(bias[:, None])[:, 0]
        of_items = None if of_items is None else of_items + stack.companions * companions.of(of_items)
    return Fitted(weight, bias, of_items)
