"""A hidden layer, and the features themselves beside it: z = W x + V relu(U x + u) + b."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError


class WithSkip(nn.Module):
    def __init__(self, features: int, labels: int, *, width: int = 2048) -> None:
        super().__init__()
        if width < 1:
            raise UserError(f"with_skip.width is the number of hidden units and must be 1 or more, got {width}")
        self.skip = nn.Linear(features, labels, bias=False)
        self.hidden = nn.Linear(features, width)
        self.classify = nn.Linear(width, labels)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.skip(features) + self.classify(torch.relu(self.hidden(features)))
        return logits
