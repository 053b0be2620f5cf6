"""Dropout whose draws belong to the batch of all processes: cutting a batch up does not change them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.core import processes


class Dropout(nn.Module):
    """As `nn.Dropout`. Every process must have seeded its generator alike; each takes the draws of its own rows."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        rows = int(processes.total(torch.tensor(len(x), device=x.device)))
        draws = torch.rand(rows, *x.shape[1:], device=x.device)[processes.rank() :: processes.count()]
        return x * (draws >= self.p) / (1.0 - self.p)
