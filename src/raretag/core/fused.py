"""The one equation with its gradient, in one pass over blocks of rows that fit into the cache.

`Objective.terms` is the definition, and torch's autograd differentiates it at the price of eight to fifteen B x C
temporaries. Here the gradient (analytic.py) is finished when the loss is, and it is the only B x C matrix that stays.
Large float32 batches are compiled (compiled.py).

The way is chosen by itself. `ratio` gives None wherever the plain way is needed: for small batches, where Python costs
more than the arithmetic and the plain way has less of it; for a part without analytic form or with parameters that
learn; for a weight or completion that lets gradients through; under `torch.compile` of the caller (which fuses by
itself) and under `torch.func`. To choose by hand: `with using("off"):`, or RARETAG_FUSED=off in the environment;
"blocks" is without compilation, "compiled" compiles small batches, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from raretag.core import compiled
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.numerics import in_full_precision, kept, value_and_slope
from raretag.core.parts import Ratio
from raretag.core.targets import Targets

if TYPE_CHECKING:
    from raretag.core.objective import Objective

MODES = ("auto", "blocks", "compiled", "off")
SMALL = 2**14  # elements of a batch: 128 x 80 is below
BLOCK = 2**17  # elements: half a megabyte of float32, the fastest of 2^15 to 2^20
_FROM_ENVIRONMENT: str = os.environ.get("RARETAG_FUSED", "auto")
_tried: WeakKeyDictionary[Objective, tuple[tuple[Any, ...], bool]] = WeakKeyDictionary()
_MODE: ContextVar[str] = ContextVar("fused", default=_FROM_ENVIRONMENT)


@contextmanager
def using(mode: str) -> Iterator[None]:
    """Choose how objectives are computed within: one of MODES."""
    token = _MODE.set(known(mode))
    try:
        yield
    finally:
        _MODE.reset(token)


def known(mode: str) -> str:
    if mode not in MODES:
        raise UserError(f"fused mode is '{mode}'; expected one of {', '.join(MODES)} (is RARETAG_FUSED misspelt?)")
    return mode


def ratio(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> Ratio | None:
    """What `objective.reduce` makes of the terms, ready for backward; None where that takes the plain way."""
    if context.block is not None:  # labels already pass in blocks, and reductions look at all of them
        return None
    mode = known(_MODE.get())
    if torch.compiler.is_compiling() or mode == "off" or (mode == "auto" and logits.numel() < SMALL):
        return None
    if not fits(objective, logits, targets):
        return None
    wanted = torch.is_grad_enabled() and logits.requires_grad
    if wanted and lets_gradients_through(objective, logits, targets, context):
        return None
    with torch.no_grad():
        scale, sums = expected(objective, logits), None
        if wanted and compiles(objective, logits):
            sums = compiled.sums(objective, logits.detach(), targets, context, scale)
        total, number, gradient = sums or in_blocks(
            objective, logits.detach(), targets, context, scale if wanted else None
        )
    if gradient is not None:
        total = WithGradient.apply(logits, total, gradient, scale)  # type: ignore[no-untyped-call]
    return objective.reduce.of_sums(total, number, logits.shape)


def fits(objective: Objective, logits: Tensor, targets: Targets) -> bool:
    """Whether every part has its analytic form, and nothing but the logits learns."""
    shape = objective.shape
    return (
        type(logits) in (Tensor, nn.Parameter)
        and logits.dim() == 2
        and logits.numel() > 0
        and logits.is_floating_point()
        and has_analytic(type(objective.score), "prices", "positive", "negative")
        and has_analytic(type(objective.reduce), "of_sums", "forward")
        and (shape is None or (has_analytic(type(shape), "slopes", "forward") and shape.slopes() is not None))
        and not targets.value.requires_grad
        and not any(parameter.requires_grad for parameter in objective.parameters())
        and not torch._C._are_functorch_transforms_active()
    )


@cache
def has_analytic(kind: type, analytic: str, *plain: str) -> bool:
    """Whether a class has an analytic form that is as recent as its plain one: a subclass may have changed one only."""
    definer = next(base for base in kind.__mro__ if any(name in vars(base) for name in (analytic, *plain)))
    return analytic in vars(definer)


def lets_gradients_through(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> bool:
    """Tried on one row, once an epoch: a part may begin to let them through, but not from one batch to the next.

    A part that looks at the whole batch cannot be tried so, and must keep its contract.
    """
    if whole_batch(objective):
        return False
    tried = (context.epoch, objective.complete, objective.weigh, logits.dtype, objective.training)
    before = _tried.get(objective)
    if before is None or before[0] != tried:
        before = _tried[objective] = tried, _lets_through(objective, logits, targets, context)
    return before[1]


def _lets_through(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> bool:
    rows = slice(0, 1)
    z = in_full_precision(logits.detach()[rows]).requires_grad_()
    t = objective.complete(z, in_dtype(targets[rows], z), part_of(context, rows))
    weight = None if objective.weigh is None else objective.weigh(z, t, part_of(context, rows))
    return t.value.requires_grad or (weight is not None and weight.requires_grad)


def compiles(objective: Objective, logits: Tensor) -> bool:
    mode = _MODE.get()
    return (
        mode != "blocks"
        and logits.device.type == "cpu"
        and logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and (mode == "compiled" or logits.numel() >= compiled.LARGE)
        and not whole_batch(objective)
    )


def whole_batch(objective: Objective) -> bool:
    return any(part.whole_batch for part in objective.parts())


def expected(objective: Objective, logits: Tensor) -> Tensor:
    """What backward will probably multiply the gradient with: then there is nothing left to do for it."""
    nothing = logits.new_zeros((), dtype=in_full_precision(logits[:0]).dtype)
    denominator = objective.reduce.of_sums(nothing, nothing, logits.shape).denominator
    return nothing + 1.0 if denominator is None or denominator < 1.0 else denominator.reciprocal()


def in_blocks(
    objective: Objective, logits: Tensor, targets: Targets, context: Context, scale: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The sum of the terms, the number of those that count, and `scale` times the gradient of the sum [B, C]."""
    rows, labels = logits.shape
    step = rows if logits.device.type != "cpu" or whole_batch(objective) else max(1, BLOCK // labels)
    gradient = None if scale is None else torch.empty_like(logits)
    totals, numbers = [], []
    for start in range(0, rows, step):
        block = slice(start, start + step)
        here = part_of(context, block)
        z = in_full_precision(logits[block])
        t = objective.complete(z, in_dtype(targets[block], z), here)
        counts = kept(objective, z, t, here)
        value, slope = value_and_slope(objective, z, t, here)
        total = (value * counts).sum()
        if gradient is not None and scale is not None:
            slope = scale * slope
            gradient[block] = slope * counts
        if not total.isfinite():  # 0 times what does not count was not 0
            total = torch.where(counts, value, 0.0).sum()
            if gradient is not None:
                gradient[block] = torch.where(counts, slope, 0.0)
        totals.append(total)
        numbers.append(counts.sum())
    return torch.stack(totals).sum(), torch.stack(numbers).sum(), gradient


def in_dtype(targets: Targets, z: Tensor) -> Targets:
    return Targets(targets.value.to(z.dtype), targets.observed)


def part_of(context: Context, rows: slice) -> Context:
    if context.index is None:
        return context
    return Context(context.index[rows], context.epoch, context.epochs)


class WithGradient(torch.autograd.Function):
    """A number whose gradient by the logits is known already, up to a factor."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, value: Tensor, gradient: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(logits, gradient, scale)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None]:
        logits, gradient, scale = ctx.saved_tensors
        if logits.device.type != "cpu" or outer != scale:
            gradient = (outer / scale).to(gradient.dtype) * gradient
        return (once(gradient, logits) if torch.is_grad_enabled() else gradient), None, None, None


class Once(torch.autograd.Function):
    """Passes a gradient on; its own derivative is an error."""

    @staticmethod
    def forward(ctx: FunctionCtx, gradient: Tensor, logits: Tensor) -> Tensor:
        return gradient

    @staticmethod
    def backward(ctx: FunctionCtx, outer: Tensor) -> tuple[Tensor, Tensor]:
        raise UserError(
            "the gradient of a fused objective has no derivative; for second derivatives compute the loss within "
            "`with raretag.core.fused.using('off'):`"
        )


def once(gradient: Tensor, logits: Tensor) -> Tensor:
    passed: Tensor = Once.apply(gradient, logits)  # type: ignore[no-untyped-call]
    return passed
