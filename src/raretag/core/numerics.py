r"""Stable forms of what the papers write with logarithms of probabilities: plain, and together with their slopes.

The plain forms are the definition. The second half is for core/fused.py, which computes a loss and its gradient in one
pass: `Logistic` has all that a price and its slope are made of, from one exponential, and `value_and_slope` is the one
equation with its derivative::

    L     = sum k w ( t pos(s+) + (1 - t) neg(s-) )
    dL/dz =     k w ( t pos'(s+) ds+/dz + (1 - t) neg'(s-) ds-/dz )

Scores give their slopes beside their values (`Score.prices`), shapes give ds/dz (`Shape.slopes`). Under a compiler,
float32 logarithms are short series instead of calls into a library: a call costs more there than everything around it.
They are good to 2e-7.
"""

from __future__ import annotations

from functools import cache, cached_property
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

from raretag.core.context import Context
from raretag.core.targets import Completed, either, overlap, zero_outside

if TYPE_CHECKING:
    from raretag.core.objective import Objective


def minus_log_p(s: Tensor) -> Tensor:
    """-log sigmoid(s) = log(1 + e^-s): no epsilon, and a gradient even at s = -1e4.

    Not torch's softplus, which is a straight line from 20 on: wrong by 2e-9 there.
    """
    return -logsigmoid(s)


def minus_log_not_p(s: Tensor) -> Tensor:
    """-log(1 - sigmoid(s)) = log(1 + e^s)."""
    return -logsigmoid(-s)


def log_softmax(logits: Tensor, context: Context) -> Tensor:
    """The logarithm of a softmax over all labels of a row, of which the columns may be a block."""
    if context.block is None:
        return torch.log_softmax(logits, 1)
    return logits - context.total(torch.logsumexp(logits, 1, keepdim=True), torch.logaddexp)


class LogSumExp(torch.autograd.Function):
    """log of the sum of e^x over a dimension, of what is `among`; nearly the lowest number where nothing is.

    To base 2, and with the gradient, which torch would take the exponentials for again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, among: Tensor, dim: int) -> Tensor:
        x = either(among, x, lowest(x))
        top = x.amax(dim, keepdim=True)
        powers = torch.exp2(x.sub_(top).mul_(1 / log(2.0)))
        total = powers.sum(dim, keepdim=True)
        ctx.save_for_backward(powers.div_(total), among)
        ctx.dim = dim
        return (top + total.log()).squeeze(dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        share, among = ctx.saved_tensors
        return zero_outside(outer.unsqueeze(ctx.dim) * share, among), None, None


def lowest(x: Tensor) -> float:
    return torch.finfo(x.dtype).min / 8  # a sum of two or a product with a temperature stays finite


def log_sum_exp(x: Tensor, among: Tensor, dim: int) -> Tensor:
    """The same; where second derivatives or a compiler may come, as torch does it."""
    if under_compiler() or x.device.type != "cpu" or torch._C._are_functorch_transforms_active():
        return torch.logsumexp(x.masked_fill(~among, lowest(x)), dim)
    value: Tensor = LogSumExp.apply(x, among, dim)  # type: ignore[no-untyped-call]
    return value


def in_full_precision(logits: Tensor) -> Tensor:
    """Half precision loses the small probabilities of rare labels, so losses are computed in float32 at least."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


@torch.library.custom_op("raretag::barrier", mutates_args=())
def _barrier(x: Tensor) -> Tensor:
    return x.clone()


@_barrier.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def barrier(x: Tensor) -> Tensor:
    """x itself, computed before whatever uses it: a wall for compilers.

    Without it a compiler would compute the number of a label again in each row of the batch.
    """
    if torch.compiler.is_compiling() and not x.requires_grad:
        wall: Tensor = _barrier(x)
        return wall
    return x


_HALF_ROOT = 0x3F3504F3  # the bits of sqrt(1/2) in float32


class Price(NamedTuple):
    """What a side of a label costs, and the derivative by its logit."""

    value: Tensor
    slope: Tensor

    def times(self, factor: Tensor | float) -> Price:
        if not isinstance(factor, Tensor) and factor == 1.0:
            return self
        return Price(factor * self.value, factor * self.slope)


class Logistic:
    """p = sigmoid(s), q = 1 - p, -log p and -log q: without cancellation, finite for every finite s.

    A compiler makes all of them from one exponential. One operation at a time, each is made when it is first asked for,
    and both logarithms from one where both sides of a label see the same logit.
    """

    def __init__(self, s: Tensor, *, both_sides: bool = True) -> None:
        self.s, self.both_sides = s, both_sides
        if under_compiler():
            e = torch.exp(-s.abs())  # in (0, 1]: cannot overflow
            minus_log_larger, larger = log_one_plus(e), (1.0 + e).reciprocal()
            self.p = torch.where(s >= 0, larger, e * larger)
            self.q = torch.where(s >= 0, e * larger, larger)
            self.minus_log_p = minus_log_larger - s.clamp(max=0.0)
            self.minus_log_q = minus_log_larger + s.clamp(min=0.0)

    @cached_property
    def p(self) -> Tensor:
        return torch.sigmoid(self.s)

    @cached_property
    def q(self) -> Tensor:
        return torch.sigmoid(-self.s)

    @cached_property
    def log_larger(self) -> Tensor:
        """The logarithm of p or q, whichever is larger."""
        return logsigmoid(self.s.abs())

    @cached_property
    def minus_log_p(self) -> Tensor:
        return self.s.clamp(max=0.0).add_(self.log_larger).neg_() if self.both_sides else logsigmoid(self.s).neg_()

    @cached_property
    def minus_log_q(self) -> Tensor:
        return self.s.clamp(min=0.0).sub_(self.log_larger) if self.both_sides else logsigmoid(-self.s).neg_()


def whole(gamma: float | Tensor) -> bool:
    """Whether a power is a few multiplications."""
    return not isinstance(gamma, Tensor) and float(gamma).is_integer() and 0 <= gamma <= 8


def power(x: Tensor, gamma: float | Tensor, minus_log_x: Tensor | None = None) -> Tensor:
    """x^gamma for x > 0, or for x >= 0 with its logarithm."""
    if isinstance(gamma, Tensor) or not whole(gamma):
        if under_compiler():
            return torch.exp(gamma * (logarithm(x) if minus_log_x is None else -minus_log_x))
        # To base 2: torch's exp takes up to twenty times as long where its result is nearly 0.
        return torch.exp2(gamma * torch.log2(x) if minus_log_x is None else -gamma / log(2.0) * minus_log_x)
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


def kept(objective: Objective, z: Tensor, t: Completed, context: Context) -> Tensor:
    """k [B, C] bool."""
    if objective.keep is None:
        return t.counted
    return overlap(t.counted, objective.keep(z, t, context).bool())


def value_and_slope(objective: Objective, z: Tensor, t: Completed, context: Context) -> tuple[Tensor, Tensor]:
    """The terms and their derivatives by the logits, [B, C] both, all of them, also those that do not count.

    Both are new tensors, which the caller may change.
    """
    positive_s, negative_s = (z, z) if objective.shape is None else objective.shape(z, t, context)
    slopes = None if objective.shape is None else objective.shape.slopes()
    one, score = positive_s is negative_s, objective.score
    positive = Logistic(positive_s, both_sides=one)
    mixes = one and (slopes is None or slopes[0] == slopes[1]) and has_analytic(type(score), "mixed", "prices")
    if not mixes and has_analytic(type(score), "against", "prices", "positive", "negative") and are_plain(t.value):
        up_slope, down_slope = slopes or (1.0, 1.0)  # a label that is there or not has one side, and one logit
        side = torch.rsub(t.value, down_slope, alpha=down_slope + up_slope)
        u = side * positive_s if one and slopes is None else torch.lerp(negative_s, -positive_s, t.value)
        value, slope = score.against(Logistic(u, both_sides=False), t)
        slope.mul_(side)
    elif mixes:
        value, slope = score.mixed(positive, t)
        slope = slope if slopes is None or slopes[0] == 1.0 else slope * slopes[0]
    else:
        negative = positive if one else Logistic(negative_s, both_sides=False)
        up, down = score.prices(positive, negative, t)
        if slopes is not None:
            up, down = (
                side if slope == 1.0 else side._replace(slope=slope * side.slope)
                for side, slope in zip((up, down), slopes, strict=True)
            )
        value, slope = between(down.value, up.value, t.value), between(down.slope, up.slope, t.value)
    if objective.weigh is not None:
        weight = objective.weigh(z, t, context)
        value, slope = (
            (value * weight, slope * weight) if under_compiler() else (value.mul_(weight), slope.mul_(weight))
        )
    return value, slope


def are_plain(t: Tensor) -> bool:
    """Whether every label is either there or not. A compiler cannot wait for the answer, and a GPU should not."""
    return not under_compiler() and t.device.type == "cpu" and float(torch.addcmul(t, t, t, value=-1.0).amax()) <= 0.0


def between(absent: Tensor, present: Tensor, t: Tensor) -> Tensor:
    """t present + (1 - t) absent: exactly one of them at t = 0 and 1."""
    if under_compiler():
        return t * present + (1.0 - t) * absent
    return torch.lerp(absent, present, t)


@cache
def has_analytic(kind: type, analytic: str, *plain: str) -> bool:
    """Whether a class has an analytic form that is as recent as its plain one: a subclass may have changed one only."""
    definer = next(base for base in kind.__mro__ if any(name in vars(base) for name in (analytic, *plain)))
    return analytic in vars(definer)
