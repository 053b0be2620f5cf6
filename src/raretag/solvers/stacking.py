r"""From scores out of fold to one answer: how loud each learner is, what companions add, and the sum of all fits.

Companions are labels that come together; scores are moved by those of the labels that go with them. With n_c positives
of label c among N items, co_cj items that have both c and j, and pi_j = n_j / N::

    P_cj = (co_cj + pi_j) / (n_c + 1) - pi_j        how much more frequent j is where c is; shrunk by one item
    P_cc = 0
    score_c <- score_c + a sum_j P_cj score_j

As P_cj = co_cj / (n_c + 1) - pi_j n_c / (n_c + 1), P is a matrix of the pairs that occur and a product of two vectors:
it is never written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


class Companions:
    """P of the positives [N, C] bool of some items."""

    def __init__(self, positive: Tensor) -> None:
        from scipy import sparse

        y = sparse.csr_array(positive.numpy().astype(np.float32))
        count = positive.sum(0).double()
        self.shrunk = (count / (count + 1)).float()  # [C]
        self.frequency = (count / max(len(positive), 1)).float()  # pi [C]
        pairs: Any = (sparse.diags_array((1 / (count + 1)).float().numpy()) @ (y.T @ y)).tocsr()
        own = self.shrunk * self.frequency - torch.from_numpy(pairs.diagonal())  # so that P_cc is 0
        self.pairs = sparse.csr_array(pairs + sparse.diags_array(own.numpy()), dtype=np.float32)

    def of(self, rows: Tensor) -> Tensor:
        """P rows [C, K], of anything that has a row for each label."""
        known = torch.from_numpy(self.pairs @ np.ascontiguousarray(rows.numpy()))
        return known - self.shrunk[:, None] * (self.frequency @ rows)


def held_out_companions(scores: Tensor, positive: Tensor, fold: Tensor) -> Tensor:
    """[N, C] sum_j P_cj score_j of each item, with a P that knows nothing of the item's fold."""
    moved = torch.zeros_like(scores)
    for one in fold.unique():
        rows = (fold == one).nonzero().flatten()
        moved[rows] = Companions(positive[fold != one]).of(scores[rows].T).T
    return moved
