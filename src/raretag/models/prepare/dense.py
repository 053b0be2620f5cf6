"""Measurements, such as the features of a network: each column to mean 0 and deviation 1, then rows of one length.

A column that never changes in training becomes 0. `Standardised` is for columns that the data has brought to mean 0
and deviation 1 already, as a table does: only the rows get one length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.models.layers.unit_rows import UnitRows


class Dense(UnitRows):
    mean: Tensor
    factor: Tensor

    def __init__(self, size: int, backbone: nn.Module) -> None:
        super().__init__(size, backbone)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("factor", torch.ones(size))

    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        steady = never_change(mean, deviation)
        self.mean.copy_(mean)
        self.factor.copy_(torch.where(steady, 0.0, 1 / torch.where(steady, 1.0, deviation)))
        self.length.copy_((~steady).sum().clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return (inputs - self.mean) * self.factor


class Standardised(UnitRows):
    def learn(self, items: int, filled: Tensor, mean: Tensor, deviation: Tensor) -> None:
        self.length.copy_((~never_change(mean, deviation)).sum().clamp(min=1).sqrt())

    def columns(self, inputs: Tensor) -> Tensor:
        return inputs


def never_change(mean: Tensor, deviation: Tensor) -> Tensor:
    """Which columns [D] hold one number, as far as float32 can tell."""
    return deviation <= 1e-6 * mean.abs().clamp(min=1)
