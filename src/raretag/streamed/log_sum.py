"""Probabilities and the sum of -log(1 - p) along each row, with few passes over memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

HIGH = 20.0  # e^80 is still a float32


class LogSum:
    """Keeps room for one block, so that the next of its size needs none. What it gives is valid until the next call."""

    def __init__(self) -> None:
        self.p, self.e, self.more = (torch.empty(0) for _ in range(3))

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Sum over the row of log(1 + e^z) [B], and p = e^z / (1 + e^z) [B, c]."""
        if self.p.shape != z.shape or self.p.dtype != z.dtype or self.p.device != z.device:
            self.p, self.e, self.more = (torch.empty_like(z) for _ in range(3))
        if z.shape[1] % 4 or not z.numel() or float(z.max()) > HIGH:
            return softplus(z).sum(1), torch.sigmoid(z, out=self.p)
        e = torch.exp(z, out=self.e)
        more = torch.add(e, 1.0, out=self.more)
        torch.div(e, more, out=self.p)
        # (1 + a)(1 + b) = 1 + (a + (1 + a) b): one logarithm for four labels, and none of the small e^z is lost.
        half, quarter = z.shape[1] // 2, z.shape[1] // 4
        two = torch.addcmul(e[:, :half], more[:, :half], e[:, half:], out=e[:, :half])
        four = torch.addcmul(two[:, :quarter], two[:, :quarter], two[:, quarter:], out=more[:, :quarter])
        return torch.log1p(four.add_(two[:, quarter:])).sum(1), self.p
