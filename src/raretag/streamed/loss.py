"""The loss of a linear head and all its gradients, one block of labels after the other.

For each block: logits [B, c] = features weights^T, the method's share of the loss, its slope on the logits, and from
it the gradients. Three matrix products, as in the plain path, and the same numbers. A method that looks along whole
rows (see core/label_block.py) costs one product more for a first pass, and one more again if a gradient flows through
what it saw, as through a softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.label_block import LabelBlock, Survey
from raretag.core.method import Method
from raretag.core.targets import Targets
from raretag.streamed.closed_form import ClosedForm, has_closed_form
from raretag.streamed.head_product import Gradients, HeadProduct, Slopes
from raretag.streamed.sampled import Sampled, is_sampled
from raretag.streamed.targets import ListedTargets

ENTRIES = 2**20  # logits at once: small enough to stay near the processor


class Pass:
    """One step's loss: what goes through the blocks."""

    def __init__(
        self,
        method: Method,
        targets: ListedTargets,
        context: Context,
        entries: int = ENTRIES,
        sparse: bool = False,
    ) -> None:
        self.method, self.targets, self.context, self.sparse = method, targets, context, sparse
        self.scale = 1.0
        self.numbers = only(method, targets, context)  # None: all labels
        # The same on every process, though one may have a row less.
        rows = -(-int(processes.total(torch.tensor(len(targets)))) // processes.count())
        self.block_labels = max(1, entries // max(1, rows))

    def blocks(self, survey: Survey) -> Iterator[tuple[slice, LabelBlock]]:
        """Where each block lies among the multiplied labels, and which labels they are."""
        labels = self.targets.shape[1]
        width = labels if self.numbers is None else len(self.numbers)
        for start in range(0, width, self.block_labels):
            place = slice(start, min(start + self.block_labels, width))
            yield place, LabelBlock(place if self.numbers is None else self.numbers[place], labels, start == 0, survey)

    def share(self, logits: Tensor, block: LabelBlock) -> Tensor:
        """The block's part of the loss."""
        block.survey.begin_block()
        like = logits if logits.dim() == 2 else logits[:, 0]
        targets: Targets = self.targets.columns(block.numbers, like)
        return self.method.loss(logits, targets, replace(self.context, block=block))

    def quickest(self, head: HeadProduct) -> Pass | ClosedForm | Sampled:
        """Some methods have formulas of their own for the slopes, which are the same numbers sooner."""
        if head.single and self.numbers is None and has_closed_form(self.method):
            return ClosedForm(self.method, self.targets, self.block_labels)
        if head.single and self.numbers is not None and is_sampled(self.method):
            return Sampled(self.method, self.targets, self.context, self.numbers, self.block_labels)
        return self

    def slopes(self, head: HeadProduct) -> Iterator[Slopes]:
        survey = self.survey(head)
        survey.learning = True
        for place, block in self.blocks(survey):
            with torch.enable_grad():
                logits = head.logits(block.numbers).requires_grad_()
                share = self.share(logits, block)
                (slope,) = torch.autograd.grad(sum(survey.debts(), share), [logits])
            yield block.numbers, place, slope, share.detach()

    def survey(self, head: HeadProduct) -> Survey:
        """All that must be known of whole rows before the last pass."""
        survey = Survey()
        while self._round(survey, head):
            pass
        if survey.carries_gradient:
            for _, block in self.blocks(survey):
                with torch.enable_grad():
                    survey.learn_slopes(self.share(head.logits(block.numbers).requires_grad_(), block))
        return survey

    def _round(self, survey: Survey, head: HeadProduct) -> bool:
        """Gather totals; whether some had to wait for these. Ends at once if none is asked for."""
        survey.begin_pass()
        for _, block in self.blocks(survey):
            # With a graph in the first block, to learn whether a gradient flows through a total.
            with torch.set_grad_enabled(block.first):
                self.share(head.logits(block.numbers).requires_grad_(block.first), block)
            if not survey.incomplete:
                return False
        survey.end_pass()
        return survey.deferred


def only(method: Method, targets: ListedTargets, context: Context) -> Tensor | None:
    """The labels that a method wants multiplied, and those that were observed; None: all."""
    if type(method).loss is not Method.loss or any(part.looks_everywhere for part in method.objective.parts()):
        return None
    wanted = method.objective.complete.multiplied(targets.shape[1], context)
    observed = targets.observed_labels()
    if wanted is None or observed is None:
        return None
    # Of all processes: they pass the same blocks, since parts speak with each other in each of them.
    both: Tensor = torch.unique(torch.cat([wanted.to(observed.device), processes.rows(observed)]))
    return both


class StreamedLoss(torch.autograd.Function):
    """Gradients are made in `forward`, where the logits are; `backward` scales them and hands them out."""

    @staticmethod
    def forward(ctx: Any, step: Pass, features: Tensor, *parameters: Tensor) -> Tensor:
        count = len(parameters) // 2
        head = HeadProduct(features, list(parameters[:count]), list(parameters[count:]))
        source = step.quickest(head)
        rows = step.targets.shape[1] if step.numbers is None else len(step.numbers)
        gradients = Gradients(head, rows, source.scale)
        loss = torch.zeros((), dtype=torch.float64, device=features.device)
        for numbers, place, slope, share in source.slopes(head):
            loss += share
            gradients.add(slope, numbers, place)
        ctx.found, loss = gradients.found(), loss * source.scale
        ctx.numbers, ctx.sizes, ctx.sparse = step.numbers, [p.shape for p in parameters], step.sparse
        return loss.to(torch.promote_types(features.dtype, torch.float32))

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.found is None:
            raise UserError("the gradients of a streamed loss were handed out already; compute the loss again")
        of_features, of_weights, of_biases = ctx.found
        ctx.found = None  # so that a parameter without a gradient takes the tensor itself, not a copy
        gradients = [*of_weights, *of_biases]
        of_weights.clear()
        of_biases.clear()
        if float(scale) != 1.0:
            of_features = of_features * scale
            for gradient in gradients:
                gradient.mul_(scale)
        if ctx.numbers is not None:
            spread = sparse_rows if ctx.sparse else dense_rows
            gradients = [spread(one, ctx.numbers, size) for one, size in zip(gradients, ctx.sizes, strict=True)]
        return None, of_features, *gradients


def sparse_rows(found: Tensor, numbers: Tensor, size: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(numbers[None], found, size, is_coalesced=True, check_invariants=False)


def dense_rows(found: Tensor, numbers: Tensor, size: torch.Size) -> Tensor:
    return found.new_zeros(size).index_copy_(0, numbers, found)
