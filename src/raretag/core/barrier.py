"""A wall for compilers: what is on this side is computed before what is on the other side."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("raretag::barrier", mutates_args=())
def _barrier(x: Tensor) -> Tensor:
    return x.clone()


@_barrier.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def barrier(x: Tensor) -> Tensor:
    """x itself. A compiler would repeat the computation of a number for each label, say, in each row of the batch."""
    if torch.compiler.is_compiling() and not x.requires_grad:
        wall: Tensor = _barrier(x)
        return wall
    return x
