"""Sums over the processes of a run; with one process nothing happens."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def count() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def total(value: Tensor) -> Tensor:
    """The sum over all processes, without gradient. Means are made of two totals, never of averages."""
    value = value.detach()
    if count() > 1:
        value = value.clone()
        dist.all_reduce(value)
    return value
