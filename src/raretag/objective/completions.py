"""What an unknown label is taken to be, without looking at any prediction."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.parts import Complete
from raretag.core.targets import Completed, Targets

Unknown = Literal["ignore", "negative"]


class ObservedOnly(Complete):
    """An unknown label has no term."""

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        return Completed(targets.positive, targets.observed, targets.observed)

    def multiplied(self, labels: int, context: Context) -> Tensor:
        return torch.empty(0, dtype=torch.int64)


class UnknownIsNegative(Complete):
    """t = 0 where nobody looked."""

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        return Completed(targets.positive, torch.ones_like(targets.observed), targets.observed)


def completion(unknown: Unknown) -> Complete:
    """The option `unknown` that most methods have."""
    return {"ignore": ObservedOnly, "negative": UnknownIsNegative}[unknown]()
