"""The one equation with its gradient, in one pass over blocks of rows that fit into the cache.

`Objective.terms` is the definition, and torch's autograd differentiates it at the price of eight to fifteen B x C
temporaries. Here the gradient (numerics.py) is finished when the loss is, and it is the only B x C matrix that stays.
Large float32 batches are compiled (compiled.py).

The way is chosen by itself. `loss` and `ratio` give None wherever the plain way is needed: for a part without analytic
form or with parameters that learn; for a weight or completion that lets gradients through; under `torch.compile` of the
caller (which fuses by itself) and under `torch.func`. To choose by hand: `with using("off"):`, or RARETAG_FUSED=off in
the environment; "blocks" is without compilation, "compiled" compiles small batches, too.

A small batch costs what its calls cost, some microseconds each. So what hangs on the objective alone is looked up once
(`Plan`), and the loss is one node of the graph.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from raretag.core import compiled, processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.numerics import has_analytic, in_full_precision, kept, value_and_slope
from raretag.core.parts import Part, Ratio, Reduce
from raretag.core.targets import ALL, Targets, is_everywhere, zero_outside

if TYPE_CHECKING:
    from raretag.core.objective import Objective

MODES = ("auto", "blocks", "compiled", "off")
BLOCK = 2**17  # elements: half a megabyte of float32, the fastest of 2^14 to 2^20
_FROM_ENVIRONMENT: str = os.environ.get("RARETAG_FUSED", "auto")
_MODE: ContextVar[str] = ContextVar("fused", default=_FROM_ENVIRONMENT)
Sums = tuple[Tensor, Tensor, Tensor | None]


class Plan:
    """What is known of an objective until a part of it is replaced."""

    def __init__(self, objective: Objective) -> None:
        self.filled = tuple(objective._modules.values())
        parts = [module for module in objective.modules() if isinstance(module, Part)]
        self.whole_batch = any(part.whole_batch for part in parts)
        self.learns_from_batches = [part for part in parts if type(part).observe is not Part.observe]
        self.parameters = list(objective.parameters())
        self.tried: tuple[Any, ...] | None = None
        self.lets_through = False
        self.analytic = self.divides = False
        if hasattr(objective, "score"):  # a loss that is no sum of terms has none
            score, shape, reduce = objective.score, objective.shape, objective.reduce
            self.analytic = (
                has_analytic(type(score), "prices", "positive", "negative")
                and has_analytic(type(reduce), "of_sums", "forward")
                and (shape is None or (has_analytic(type(shape), "slopes", "forward") and shape.slopes() is not None))
            )
            nothing = torch.zeros(())
            self.divides = self.analytic and reduce.of_sums(nothing, nothing, torch.Size((1, 1))).numerator is nothing
        self.divisors: dict[torch.Size, float] = {}

    def divisor(self, reduce: Reduce, logits: Tensor, shares: int) -> float:
        """What a reduction that asks for no number of terms divides by."""
        found = self.divisors.get(logits.shape)
        if found is None or shares > 1:
            nothing = torch.zeros((), dtype=in_full_precision(logits[:0]).dtype)
            found = self.divisors[logits.shape] = divisor_of(reduce.of_sums(nothing, nothing, logits.shape), shares)
        return found


_plans: WeakKeyDictionary[Objective, Plan] = WeakKeyDictionary()


def plan_of(objective: Objective) -> Plan:
    plan = _plans.get(objective)
    if plan is None or plan.filled != tuple(objective._modules.values()):
        plan = _plans[objective] = Plan(objective)
    return plan


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


def loss(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> Tensor | None:
    """The share of this process in the mean over processes; None where that takes the plain way."""
    plan = taken(objective, logits, targets, context)
    if plan is None:
        return None
    if not plan.divides or logits.device.type != "cpu":  # a reduction of its own; a GPU is not waited for
        ratio = reduced(objective, logits, targets, context)
        return with_denominator(ratio.numerator, ratio.denominator)
    if torch.is_grad_enabled() and logits.requires_grad:
        value: Tensor = Loss.apply(logits, plan, objective, targets, context)  # type: ignore[no-untyped-call]
        return value
    with torch.no_grad():
        return divided(plan, objective, logits, targets, context, wanted=False)[0]


def with_denominator(numerator: Tensor, denominator: Tensor | None) -> Tensor:
    """A share of the loss such that the mean over processes is global sum / global denominator."""
    loss = numerator * processes.count()
    return loss if denominator is None else loss / processes.total(denominator).clamp(min=1.0)


def ratio(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> Ratio | None:
    """What `objective.reduce` makes of the terms, ready for backward; None where that takes the plain way."""
    plan = taken(objective, logits, targets, context)
    return None if plan is None else reduced(objective, logits, targets, context)


def reduced(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> Ratio:
    wanted = torch.is_grad_enabled() and logits.requires_grad
    with torch.no_grad():
        scale = expected(objective, logits) if wanted else 1.0
        total, number, gradient = sums(objective, logits.detach(), targets, context, scale, wanted)
    if gradient is not None:
        total = WithGradient.apply(logits, total, gradient, scale)  # type: ignore[no-untyped-call]
    return objective.reduce.of_sums(total, number, logits.shape)


def divided(
    plan: Plan, objective: Objective, logits: Tensor, targets: Targets, context: Context, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """The loss and its gradient."""
    shares, reduce = processes.count(), objective.reduce
    divisor = None if reduce.asks_number else plan.divisor(reduce, logits, shares)
    scale = 1.0 if divisor is None else shares / divisor
    total, number, gradient = sums(objective, logits, targets, context, scale, wanted)
    if divisor is None:
        divisor = divisor_of(reduce.of_sums(total, number, logits.shape), shares)
        if gradient is not None:
            gradient.mul_(shares / divisor)
    return (total if shares == 1 else total * shares) / divisor, gradient


def divisor_of(ratio: Ratio, shares: int) -> float:
    if ratio.denominator is None:
        return 1.0
    return max(1.0, float(ratio.denominator if shares == 1 else processes.total(ratio.denominator)))


def taken(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> Plan | None:
    """The plan, if this way may be taken."""
    if context.block is not None or torch.compiler.is_compiling():
        return None  # labels that pass in blocks have reductions over all of them; a compiler fuses by itself
    if known(_MODE.get()) == "off":
        return None
    plan = plan_of(objective)
    if not fits(plan, logits, targets):
        return None
    wanted = torch.is_grad_enabled() and logits.requires_grad
    return None if wanted and lets_gradients_through(plan, objective, logits, targets, context) else plan


def sums(objective: Objective, logits: Tensor, targets: Targets, context: Context, scale: float, wanted: bool) -> Sums:
    """The sum of the terms, the number of those that count, and `scale` times the gradient of the sum [B, C]."""
    if wanted and compiles(plan_of(objective), logits):
        factor = logits.new_tensor(scale, dtype=in_full_precision(logits[:0]).dtype)
        made = compiled.sums(objective, logits, targets, context, factor)
        if made is not None:
            return made
    return in_blocks(objective, logits, targets, context, scale, wanted)


def fits(plan: Plan, logits: Tensor, targets: Targets) -> bool:
    """Whether every part has its analytic form, and nothing but the logits learns."""
    return (
        plan.analytic
        and type(logits) in (Tensor, nn.Parameter)
        and logits.dim() == 2
        and logits.numel() > 0
        and logits.is_floating_point()
        and not targets.value.requires_grad
        and not any(parameter.requires_grad for parameter in plan.parameters)
        and not torch._C._are_functorch_transforms_active()
    )


def lets_gradients_through(
    plan: Plan, objective: Objective, logits: Tensor, targets: Targets, context: Context
) -> bool:
    """Tried on one row, once an epoch: a part may begin to let them through, but not from one batch to the next.

    A part that looks at the whole batch cannot be tried so, and must keep its contract.
    """
    if plan.whole_batch:
        return False
    tried = (context.epoch, logits.dtype, objective.training)
    if plan.tried != tried:
        plan.tried, plan.lets_through = tried, _lets_through(objective, logits, targets, context)
    return plan.lets_through


def _lets_through(objective: Objective, logits: Tensor, targets: Targets, context: Context) -> bool:
    rows = slice(0, 1)
    z = in_full_precision(logits.detach()[rows]).requires_grad_()
    t = objective.complete(z, in_dtype(targets[rows], z), part_of(context, rows))
    weight = None if objective.weigh is None else objective.weigh(z, t, part_of(context, rows))
    return t.value.requires_grad or (weight is not None and weight.requires_grad)


def compiles(plan: Plan, logits: Tensor) -> bool:
    mode = _MODE.get()
    return (
        mode != "blocks"
        and (mode == "compiled" or logits.numel() >= compiled.LARGE)
        and logits.device.type == "cpu"
        and logits.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and not plan.whole_batch
    )


def expected(objective: Objective, logits: Tensor) -> float:
    """What backward will probably multiply the gradient with: then there is nothing left to do for it."""
    nothing = torch.zeros((), dtype=in_full_precision(logits[:0]).dtype)
    denominator = objective.reduce.of_sums(nothing, nothing, logits.shape).denominator
    return 1.0 if denominator is None or denominator < 1.0 else float(denominator.reciprocal())


def in_blocks(
    objective: Objective, logits: Tensor, targets: Targets, context: Context, scale: float, wanted: bool
) -> Sums:
    rows, labels = logits.shape
    step = rows if logits.device.type != "cpu" or plan_of(objective).whole_batch else max(1, BLOCK // labels)
    if rows <= step:
        total, number, slope = one_block(objective, logits, targets, context, scale)
        return total, number, slope.to(logits.dtype) if wanted else None
    gradient = torch.empty_like(logits) if wanted else None
    totals, numbers = [], []
    for start in range(0, rows, step):
        block = slice(start, start + step)
        total, number, slope = one_block(objective, logits[block], targets[block], part_of(context, block), scale)
        if gradient is not None:
            gradient[block] = slope
        totals.append(total)
        numbers.append(number)
    return torch.stack(totals).sum(), torch.stack(numbers).sum(), gradient


def one_block(
    objective: Objective, logits: Tensor, targets: Targets, context: Context, scale: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of the terms that count, their number, and `scale` times the gradient of the sum [B, C]."""
    z = in_full_precision(logits)
    t = objective.complete(z, in_dtype(targets, z), context)
    counts = kept(objective, z, t, context)
    value, slope = value_and_slope(objective, z, t, context)
    if scale != 1.0:
        slope.mul_(scale)
    if is_everywhere(counts):
        return value.sum(), ALL[0] * counts.numel() if objective.reduce.asks_number else ALL[0], slope
    number = counts.sum() if objective.reduce.asks_number else ALL[0]
    if z.device.type != "cpu":  # not waited for
        return zero_outside(value, counts).sum(), number, zero_outside(slope, counts)
    factor = counts.view(torch.uint8).to(z.dtype)  # bytes: a vector of bool is slow to load
    total = (value * factor).sum()
    if math.isfinite(total):
        return total, number, slope.mul_(factor)
    return zero_outside(value, counts).sum(), number, zero_outside(slope, counts)  # 0 times it was not 0


def in_dtype(targets: Targets, z: Tensor) -> Targets:
    return targets if targets.value.dtype == z.dtype else Targets(targets.value.to(z.dtype), targets.observed)


def part_of(context: Context, rows: slice) -> Context:
    if context.index is None:
        return context
    return Context(context.index[rows], context.epoch, context.epochs)


class Loss(torch.autograd.Function):
    """The loss of a batch, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, plan: Plan, objective: Objective, targets: Targets, context: Context
    ) -> Tensor:
        value, gradient = divided(plan, objective, logits, targets, context, wanted=True)
        ctx.save_for_backward(logits, gradient)
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None, None]:
        logits, gradient = ctx.saved_tensors
        return through(logits, gradient, outer, 1.0), None, None, None, None


class WithGradient(torch.autograd.Function):
    """A number whose gradient by the logits is known already, up to a factor."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, value: Tensor, gradient: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(logits, gradient)
        ctx.scale = scale
        return value.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None]:
        logits, gradient = ctx.saved_tensors
        return through(logits, gradient, outer, ctx.scale), None, None, None


def through(logits: Tensor, gradient: Tensor, outer: Tensor, scale: float) -> Tensor:
    if logits.device.type != "cpu" or float(outer) != scale:
        gradient = (outer / scale).to(gradient.dtype) * gradient
    return once(gradient, logits) if torch.is_grad_enabled() else gradient


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
