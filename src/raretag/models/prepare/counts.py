"""Counts, such as words of a text: log1p(x) (ln((1 + N) / (1 + N_d)) + 1), then rows of one length.

N training items, of which N_d have something in column d.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.models.layers.unit_rows import UnitRows


class Counts(UnitRows):
    rarity: Tensor

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__(size, backbone)
        self.register_buffer("rarity", torch.ones(size))

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        self.rarity.copy_(torch.log((1 + items) / (1 + filled)) + 1)
        self.length.copy_((filled.sum() / items).clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return torch.log1p(inputs.clamp(min=0)) * self.rarity
