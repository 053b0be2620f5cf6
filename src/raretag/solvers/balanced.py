"""Weights with which both sides of a label count the same in the whole data set."""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.parts import Weigh
from raretag.core.targets import Completed, LabelStatistics
from raretag.objective import weights


class Balanced(Weigh):
    """N / (2 n_c) where y = 1, N / (2 (N - n_c)) where y = 0."""

    sides: Tensor

    def __init__(self, statistics: LabelStatistics) -> None:
        super().__init__()
        n, items = weights.counts(statistics), max(statistics.items, 2)
        self.register_buffer("sides", items / (2 * torch.stack([items - n, n])))  # [2, C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        negative, positive = context.of(self.sides).to(logits.dtype)
        weight: Tensor = negative + completed.value * (positive - negative)
        return weight
