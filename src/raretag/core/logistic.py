"""What a price and its slope are made of, all from one exponential; and powers and logarithms that cost little.

The plain forms (numerics.py, objective/scores.py) are the definition. These are for core/fused.py, where value and
slope are computed together. Under a compiler, float32 logarithms are short series instead of calls into a library: a
call costs more there than everything around it. They are good to 2e-7.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import torch
from torch import Tensor

_HALF_ROOT = 0x3F3504F3  # the bits of sqrt(1/2) in float32


class Price(NamedTuple):
    """What a side of a label costs, and the derivative by its logit."""

    value: Tensor
    slope: Tensor

    def times(self, factor: Tensor | float) -> Price:
        return Price(factor * self.value, factor * self.slope)


class Logistic:
    """p = sigmoid(s), q = 1 - p, -log p and -log q: without cancellation, finite for every finite s."""

    def __init__(self, s: Tensor) -> None:
        e = torch.exp(-s.abs())  # in (0, 1]: cannot overflow
        self.s = s
        self.minus_log_larger = log_one_plus(e)
        if under_compiler():
            larger = (1.0 + e).reciprocal()
            self.p = torch.where(s >= 0, larger, e * larger)
            self.q = torch.where(s >= 0, e * larger, larger)
        else:  # one operation at a time, a choice costs more than two exponentials
            self.p, self.q = torch.sigmoid(s), torch.sigmoid(-s)

    @property
    def minus_log_p(self) -> Tensor:
        return self.minus_log_larger - self.s.clamp(max=0.0)

    @property
    def minus_log_q(self) -> Tensor:
        return self.minus_log_larger + self.s.clamp(min=0.0)


def whole(gamma: float | Tensor) -> bool:
    """Whether a power is a few multiplications."""
    return not isinstance(gamma, Tensor) and float(gamma).is_integer() and 0 <= gamma <= 8


def power(x: Tensor, gamma: float | Tensor, minus_log_x: Tensor | None = None) -> Tensor:
    """x^gamma for x > 0, or for x >= 0 with its logarithm."""
    if isinstance(gamma, Tensor) or not whole(gamma):
        return torch.exp(gamma * (logarithm(x) if minus_log_x is None else -minus_log_x))
    result: Tensor | None = None
    square, bits = x, int(gamma)
    while bits:  # by squaring
        if bits & 1:
            result = square if result is None else result * square
        bits >>= 1
        square = square * square if bits else square
    return torch.ones_like(x) if result is None else result


def under_compiler() -> bool:
    return torch.compiler.is_compiling()


def log_one_plus(e: Tensor) -> Tensor:
    """log(1 + e) for e in [0, 1]."""
    if not under_compiler() or e.dtype != torch.float32:
        return torch.log1p(e)
    return _twice_artanh(e / (2.0 + e), terms=8)  # u in [0, 1/3]


def logarithm(x: Tensor) -> Tensor:
    """log x for normal x > 0."""
    if not under_compiler() or x.dtype != torch.float32:
        return torch.log(x)
    bits = x.view(torch.int32)
    exponent = (bits - _HALF_ROOT) >> 23
    mantissa = (bits - (exponent << 23)).view(torch.float32)  # in [sqrt(1/2), sqrt(2))
    u = (mantissa - 1.0) / (mantissa + 1.0)  # at most 0.1716
    return exponent.to(torch.float32) * log(2.0) + _twice_artanh(u, terms=5)


def _twice_artanh(u: Tensor, terms: int) -> Tensor:
    """log((1 + u) / (1 - u)) = 2 u (1 + u^2 / 3 + u^4 / 5 + ...)."""
    square = u * u
    tail = torch.full_like(u, 1.0 / (2 * terms - 1))
    for k in range(terms - 2, -1, -1):
        tail = tail * square + 1.0 / (2 * k + 1)
    return 2.0 * u * tail
