"""The pass of core/fused.py as machine code, for batches so large that compiling pays.

`torch.compile` makes loops over the batch: where there is a mask, one for the completed targets and one for the mask,
which is mostly integers (the hash of a random draw); and one for all else. It takes seconds, once for an objective and
a number of threads; torch keeps most of it on disk for the next run. Where it fails, for example without a C++
compiler, the objective is computed in blocks.
"""

from __future__ import annotations

import logging
import platform
import sys
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.numerics import barrier, in_full_precision, kept, value_and_slope
from raretag.core.targets import Completed, Targets

if TYPE_CHECKING:
    from raretag.core.objective import Objective

LARGE = 2**20  # elements of a batch: from here on a step saves what compiling costs within some hundred steps
Sums = tuple[Tensor, Tensor, Tensor]
Kernels = tuple[Callable[..., None], Callable[..., None], Callable[..., Sums]]

# By default long formulas are cut, and what lies at the cuts is written to memory.
ONE_LOOP: dict[str, Any] = {
    "realize_reads_threshold": 10**6,
    "realize_opcount_threshold": 10**6,
    "realize_acc_reads_threshold": 10**6,
}
# The vectors of torch have no product of 64-bit integers. A plain loop is quicker, and more so if the C++ compiler
# may make vectors of it. Torch forbids that always; of two flags the last counts, and the processor comes last.
PLAIN_LOOP: dict[str, Any] = {**ONE_LOOP, "cpp.simdlen": 1}
if sys.platform == "linux" and platform.machine() == "x86_64":
    PLAIN_LOOP["cpp.march"] = "native -ftree-loop-vectorize"

_log = logging.getLogger(__name__)
_kernels: WeakKeyDictionary[Objective, Kernels | None] = WeakKeyDictionary()  # None: it failed


class Batch(NamedTuple):
    """A batch and its context as tensors, of which sizes may change without compiling again."""

    logits: Tensor  # [B, C]
    value: Tensor  # [B, C]
    observed: Tensor  # [B, C] bytes, because a vector of bool is slow to load
    rows: Tensor | None  # [B] row numbers
    epoch: Tensor  # its size is the epoch plus 2, as sizes of 0 and 1 are constants to the compiler
    epochs: int

    @classmethod
    def of(cls, logits: Tensor, targets: Targets, context: Context) -> Batch:
        matrices = (logits, targets.value.detach(), targets.observed.view(torch.uint8))
        index = None if context.index is None else context.index.detach()
        epoch = torch.empty(1).expand(context.epoch + 2)
        for tensor in (*matrices, index, epoch):
            if tensor is not None:
                torch._dynamo.maybe_mark_dynamic(tensor, 0)
        return cls(*matrices, index, epoch, context.epochs)

    def context(self) -> Context:
        return Context(self.rows, len(self.epoch) - 2, self.epochs)


def sums(
    objective: Objective,
    logits: Tensor,
    targets: Targets,
    context: Context,
    scale: Tensor,
) -> Sums | None:
    """The sum of the terms, the number of those that count, `scale` times the gradient [B, C]; None if it cannot be."""
    first = objective not in _kernels
    if first:
        _kernels[objective] = own(completed), own(masks_of), own(pass_over)
    kernels = _kernels[objective]
    if kernels is None:
        return None
    complete, make_masks, make_sums = kernels
    batch = Batch.of(logits, targets, context)
    try:
        with warnings.catch_warnings():
            if first:
                warnings.simplefilter("ignore")
            masks = None
            if objective.keep is not None:
                masks = targets.observed.to(torch.float32)  # written on twice: fresh memory costs as much as arithmetic
                torch._dynamo.maybe_mark_dynamic(masks, 0)
                complete(objective, batch, masks)
                make_masks(objective, batch, masks)
            totals, numbers, gradient = make_sums(objective, batch, masks, scale)
    except Exception as problem:
        _log.info("an objective is computed without compilation: %s", str(problem).partition("\n")[0])
        _kernels[objective] = None
        return None
    return totals.double().sum().to(totals.dtype), numbers.sum(), gradient


def own(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled when it is first called. A copy, because torch limits how often one piece of code is compiled."""
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
    options = PLAIN_LOOP if function is masks_of else ONE_LOOP
    made: Callable[..., Any] = torch.compile(copy, fullgraph=True, options=options)
    return made


def completed(objective: Objective, batch: Batch, masks: Tensor) -> None:
    """From observed to t [B, C]. Not in the loop of the mask: a choice of values there keeps it from being vectors."""
    z, context = in_full_precision(batch.logits), batch.context()
    masks.copy_(objective.complete(z, Targets(batch.value.to(z.dtype), masks > 0), context).value)


def masks_of(objective: Objective, batch: Batch, masks: Tensor) -> None:
    """From t to k + 2 observed [B, C]; as float32, because the loop of floats reads bytes at half the speed."""
    z, context = in_full_precision(batch.logits), batch.context()
    t = objective.complete(z, Targets(batch.value.to(z.dtype), batch.observed > 0), context)
    t = Completed(masks, t.counted, t.observed, t.where)
    # A choice, not a conversion of bool: that keeps the C++ compiler from using vectors.
    masks.copy_(torch.where(kept(objective, z, t, context), 1.0, 0.0) + 2.0 * batch.observed.to(torch.float32))


def pass_over(objective: Objective, batch: Batch, masks: Tensor | None, scale: Tensor) -> Sums:
    """The sum of the terms and the number of those that count, of each row [B]; the gradient [B, C], scaled."""
    z, context = in_full_precision(batch.logits), batch.context()
    known = batch.observed.to(z.dtype) > 0 if masks is None else masks > 1.5
    t = objective.complete(z, Targets(batch.value.to(z.dtype), known), context)
    counts = kept(objective, z, t, context) if masks is None else (masks == 1.0) | (masks == 3.0)
    terms, slope = value_and_slope(objective, z, t, context)
    # One number for each label holds rows and labels apart. As a single long loop the slopes could not be made in the
    # loop that sums the rows, and what both need would go through memory.
    scale = barrier(scale.repeat(z.shape[1]))
    terms, slope = torch.where(counts, terms, 0.0), torch.where(counts, scale * slope, 0.0)
    return terms.sum(1), counts.to(z.dtype).sum(1), slope.to(batch.logits.dtype)
