"""How much a term counts. Weights are numbers of the data set or of the row; no gradient flows through them.

The labels that a row has are those with t > 1/2, which matters only where a completion gives soft values.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.numerics import barrier
from raretag.core.parts import Weigh
from raretag.core.targets import Completed, LabelStatistics


def counts(statistics: LabelStatistics) -> Tensor:
    """n_c [C] as float64. A label never seen counts as seen once, one that is always there as once missing."""
    return statistics.positives.double().clamp(min=1.0, max=max(statistics.items - 1.0, 1.0))


def effective_number(n: Tensor, beta: float) -> Tensor:
    """E_n = (1 - beta^n) / (1 - beta) (Cui et al., 2019): n for beta -> 1, and 1 at beta = 0."""
    if not 0 <= beta < 1:
        raise UserError(f"beta must lie in [0, 1), got {beta}; near 1, as 0.9999, the weights are close to 1 / n")
    return (1.0 - beta**n) / (1.0 - beta)


def class_balanced(n: Tensor, beta: float) -> Tensor:
    """w_c = 1 / E_n, scaled to sum to C: what Cui et al. and deferred re-weighting use."""
    weight = 1.0 / effective_number(n, beta)
    return weight * (len(weight) / weight.sum())


class LabelWeights(Weigh):
    """One weight for each label, on both of its sides."""

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)  # [C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return barrier(context.of(self.weight).to(logits.dtype))


class SideWeights(Weigh):
    """One weight for positives and one for negatives; between them for soft values."""

    def __init__(self, positive: float, negative: float) -> None:
        super().__init__()
        self.sides = positive, negative

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        positive, negative = self.sides
        return negative + completed.value * (positive - negative)


class Rebalancing(Weigh):
    """Wu et al. 2020: what class-aware sampling repeats too often, because labels occur together, counts less.

    (2)  P^C_i = 1 / (C n_i),  P^I = sum over the labels j of the row of 1 / (C n_j)
    (3)  r_i = P^C_i / P^I
    (4)  r^_i = alpha + sigmoid(beta (r_i - mu))

    A row without positives has r = infinity, so r^ = alpha + 1.
    """

    rarity: Tensor

    def __init__(self, statistics: LabelStatistics, alpha: float, beta: float, mu: float) -> None:
        super().__init__()
        self.alpha, self.beta, self.mu = alpha, beta, mu
        self.register_buffer("rarity", 1.0 / counts(statistics))  # 1 / n_i [C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        rarity = barrier(context.of(self.rarity).to(logits.dtype))
        instance = context.total((completed.value > 0.5).to(logits.dtype) @ rarity)  # C P^I [B]
        r = rarity / instance.clamp(min=torch.finfo(logits.dtype).tiny)[:, None]  # [B, C]
        return self.alpha + torch.sigmoid(self.beta * (r - self.mu))


class Product(Weigh):
    """Several weights at once."""

    def __init__(self, *factors: Weigh) -> None:
        super().__init__()
        self.factors = nn.ModuleList(factors)

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        weight = torch.ones((), dtype=logits.dtype, device=logits.device)
        for factor in self.factors:
            weight = weight * factor(logits, completed, context)
        return weight
