"""Every row to length 1, before a backbone."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class UnitRows(nn.Module):
    """A backbone behind a column-wise change that was learned from training items, and rows of length 1."""

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__()
        self.size, self.backbone = size, backbone
        self.features = backbone.features

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        """Of `items` training rows, for each column [D]: how many are not 0, their mean and their deviation."""
        raise NotImplementedError

    def columns(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, inputs: Tensor) -> Tensor:
        changed = self.columns(inputs)
        found: Tensor = self.backbone(changed / torch.linalg.vector_norm(changed, dim=1, keepdim=True).clamp(min=1e-12))
        return found
