"""Every row to one length, before a backbone.

The length is that of a row whose filled columns are all 1. For a linear model whose strength is chosen it is as good as
length 1; a network that takes its steps at the usual rate would learn almost nothing from rows of length 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class UnitRows(nn.Module):
    """A backbone behind a column-wise change that was learned from training items, and rows of one length."""

    length: Tensor

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__()
        self.size, self.backbone = size, backbone
        self.features = backbone.features
        self.register_buffer("length", torch.ones(()))

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        """Of `items` training rows, for each column [D]: how many are not 0, their mean and their deviation."""
        raise NotImplementedError

    def columns(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, inputs: Tensor) -> Tensor:
        changed = self.columns(inputs)
        norm = torch.linalg.vector_norm(changed, dim=1, keepdim=True).clamp(min=1e-12)
        found: Tensor = self.backbone(changed * (self.length / norm))
        return found
