"""One linear classifier for each label."""

from __future__ import annotations

from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.classify = nn.Linear(features, labels)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(features)
        return logits
