"""A linear head for very many labels.

    head = StreamedHead(features=256, labels=1_000_000)
    loss = head.loss(method, features, listed_targets(store, rows), Context(index=rows, epoch=epoch, epochs=epochs))
    loss.backward()                      # gradients of weight, bias and features
    scores, labels = head.top_k(features, 5)

The logits [B, C] never exist: labels pass in blocks. Numbers are those of `method.loss(linear(features), targets)`.

For each block: logits [B, c] = features weights^T, the method's share of the loss, its slope on the logits, and from
it the gradients. Three matrix products, as in the plain path, and the same numbers. A method that looks along whole
rows (see core/context.py) costs one product more for a first pass, and one more again if a gradient flows through
the totals it needs, as through a softmax.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core import processes
from raretag.core.context import NO_CONTEXT, Context, LabelBlock, Survey
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.targets import Targets
from raretag.streamed.products import Gradients, HeadProduct, Slopes
from raretag.streamed.targets import ListedTargets
from raretag.streamed.without_graph import ClosedForm, Sampled, has_closed_form, is_sampled

ENTRIES = 2**20  # logits at once: small enough to stay near the processor


class StreamedHead(nn.Module):
    """A linear head whose logits [B, C] never exist at once: `loss` and `top_k` take blocks of labels.

    `branches` heads lie side by side, for methods such as COMIC; then features are [B, K, D].

    With `sparse` a step that multiplies only some labels gives sparse gradients, for optimizers that take them.

    >>> import torch, raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat", "dog"]])
    >>> head = raretag.streamed.StreamedHead(features=4, labels=2)
    >>> targets = raretag.streamed.listed_targets(labels, [0, 1])
    >>> loss = head.loss(raretag.methods.AssumeNegative(), torch.zeros(2, 4), targets)
    >>> loss.shape
    torch.Size([])
    """

    def __init__(
        self, features: int, labels: int, *, branches: int = 1, sparse: bool = False, entries_at_once: int = ENTRIES
    ) -> None:
        super().__init__()
        if min(features, labels, branches, entries_at_once) < 1:
            raise UserError("StreamedHead: features, labels, branches and entries_at_once must be 1 or more")
        self.features, self.labels, self.branches = features, labels, branches
        self.sparse, self.entries_at_once = sparse, entries_at_once
        bound = 1.0 / sqrt(features)  # as nn.Linear
        self.weights = nn.ParameterList(torch.empty(labels, features).uniform_(-bound, bound) for _ in range(branches))
        self.biases = nn.ParameterList(torch.empty(labels).uniform_(-bound, bound) for _ in range(branches))

    def loss(self, method: Method, features: Tensor, targets: ListedTargets, context: Context = NO_CONTEXT) -> Tensor:
        """The method's loss of the batch. In training mode the method learns from it, as in `method.loss`."""
        self._check(features)
        if targets.shape != (len(features), self.labels):
            raise UserError(
                f"targets are {targets.shape[0]} x {targets.shape[1]}, but there are {len(features)} items and "
                f"{self.labels} labels: was the head made for a different label list?"
            )
        if next(method.parameters(), None) is not None:
            raise UserError(
                f"{type(method).__name__} learns a number for each item and label, which no head can pass in blocks"
            )
        step = Pass(method, targets, context, self.entries_at_once, self.sparse)
        return StreamedLoss.apply(step, features, *self.weights, *self.biases)  # type: ignore[no-any-return, no-untyped-call]

    @torch.no_grad()
    def top_k(self, features: Tensor, k: int, branch: int = 0) -> tuple[Tensor, Tensor]:
        """The k highest logits of each row [B, k] and their labels, the highest first."""
        self._check(features)
        if not 1 <= k <= self.labels:
            raise UserError(f"k is {k}; expected from 1 to the {self.labels} labels")
        features = features if features.dim() == 2 else features[:, branch]
        head = HeadProduct(features, [self.weights[branch]], [self.biases[branch]])
        best, found = features.new_empty(len(features), 0), torch.empty(len(features), 0, dtype=torch.int64)
        found = found.to(features.device)
        size = max(k, self.entries_at_once // max(1, len(features)))
        for start in range(0, self.labels, size):
            block = slice(start, min(start + size, self.labels))
            logits, place = head.logits(block).topk(min(k, block.stop - start), dim=1)
            best, found = torch.cat([best, logits], 1), torch.cat([found, place + start], 1)
            best, place = best.topk(min(k, best.shape[1]), dim=1)
            found = found.gather(1, place)
        return best, found

    def forward(self, features: Tensor) -> Tensor:
        """All logits at once [B, C], for few labels or few rows."""
        self._check(features)
        return HeadProduct(features, list(self.weights), list(self.biases)).logits(slice(0, self.labels))

    def _check(self, features: Tensor) -> None:
        wanted = (self.features,) if self.branches == 1 else (self.branches, self.features)
        if features.shape[1:] != wanted:
            raise UserError(f"features are {tuple(features.shape)}; expected [items, {', '.join(map(str, wanted))}]")


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
        """Gather totals; whether some had to wait for these. Ends at once if there is none."""
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
    # Of all processes: they pass the same blocks, since parts exchange sums in each of them.
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
            raise UserError("the gradients of a streamed loss were already handed out; compute the loss again")
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
