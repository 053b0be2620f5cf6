r"""Open long-tailed recognition (OLTR): a memory of what labels look like.

Liu et al., "Large-Scale Long-Tailed Recognition in an Open World", CVPR 2019, arXiv:1904.05160.

Paper and code::

    v        features               [B, D]
    M        head.centroids         memory                                  [C, D]
    d        distance               |v - M_c|^2                             [B, C]

    stage 1: a plain classifier, items as they come
    between: M_c = mean feature of the items that have label c
    stage 2: the head `memory` (see there), class-aware items, everything learns

    L = BCE + weight (attract + repel_weight repel)
    attract = mean over items of half the mean of d over the item's labels
    repel   = max(0, margin - mean of d over all labels that an item does not have)

Reduces to:
    binary_cross_entropy with the same `unknown` in stage 1, and with a model that returns no distances.

Departs from the paper:
    it has one label per item; the form for several is ours: BCE for softmax, and the means over labels above.
    No open set: reachability scales the features as in the paper, but nothing is rejected.
    Mean over items and labels.

Departs from the authors' code:
    centroids have the gradient of the loss, which the code divides by the number of items again, and no rate of
    their own.
    The memory of a label without items is the mean of all features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core import processes
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.method import Method, Stage
from raretag.core.objective import Objective
from raretag.core.targets import Completed, Targets
from raretag.models.heads.memory import Memory
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class Oltr(Method):
    """The loss of open long-tailed recognition: the head `memory` and two stages are part of the engine.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.Oltr()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9714
    """

    head = "memory"
    stages = (
        Stage(share=1 / 3, trains=r"^(backbone|head\.classify)\b"),
        Stage(share=2 / 3, sampler="class_aware"),
    )
    remembers: Tensor

    def __init__(
        self,
        *,
        weight: float = 0.01,
        repel_weight: float = 0.01,
        margin: float = 10.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        if min(weight, repel_weight, margin) < 0:
            raise UserError("oltr: weight, repel_weight and margin must be 0 or more, one is negative")
        super().__init__(Objective(complete=completion(unknown), score=CrossEntropy(), reduce=reduction(reduce)))
        self.weight, self.repel_weight, self.margin = weight, repel_weight, margin
        self.register_buffer("remembers", torch.zeros((), dtype=torch.bool))

    def begin_stage(
        self, number: int, model: nn.Module, features: Callable[[], Iterator[tuple[Tensor, Targets]]]
    ) -> None:
        head = getattr(model, "head", None)
        if not isinstance(head, Memory):
            raise UserError(f"oltr needs the head 'memory', got {type(head).__name__}; leave `head` to the method")
        if number == 1:
            head.remember(centroids(features()))
            self.remembers.fill_(True)

    def logits(self, outputs: Any) -> Tensor:
        prediction: Tensor = outputs if isinstance(outputs, Tensor) else outputs[0]
        return prediction

    def loss(self, outputs: Tensor | tuple[Tensor, Tensor], targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        logits = self.logits(outputs)
        value = super().loss(logits, targets, context)
        if isinstance(outputs, Tensor) or not self.remembers:
            return value
        distance = outputs[1].to(value.dtype)
        known = self.objective.complete(logits, Targets(targets.value.to(value.dtype), targets.observed), context)
        return value + self.weight * (
            attract(distance, known) + self.repel_weight * repel(distance, known, self.margin)
        )

    forward = loss  # type: ignore[assignment]  # takes all that the model gives, not only logits


def attract(distance: Tensor, known: Completed) -> Tensor:
    """Share of this process, times the number of processes, as every loss."""
    there = torch.where(known.counted, known.value, 0.0)
    of_item = (there * distance).sum(1) / there.sum(1).clamp(min=1.0)
    rows = processes.total(distance.new_tensor(float(len(distance)))).clamp(min=1.0)
    return processes.count() * of_item.sum() / (2.0 * rows)


def repel(distance: Tensor, known: Completed, margin: float) -> Tensor:
    """The mean decides for all processes together whether it is below the margin."""
    absent = torch.where(known.counted, 1.0 - known.value, 0.0)
    number = processes.total(absent.sum()).clamp(min=1.0)
    share = (absent * distance).sum() / number
    mean = processes.total(share) + processes.count() * (share - share.detach())
    return (margin - mean).clamp(min=0.0)


def centroids(batches: Iterator[tuple[Tensor, Targets]]) -> Tensor:
    """The mean feature of the items that have each label [C, D], over all processes."""
    sums: Tensor | None = None  # [C + 1, D + 1]: a row for all items, a column of ones to count them
    for features, targets in batches:
        rows = torch.cat([features.double(), features.new_ones(len(features), 1).double()], dim=1)
        there = torch.cat([targets.positive.double(), rows[:, -1:]], dim=1)
        share = there.T @ rows
        sums = share if sums is None else sums + share
    if sums is None:
        raise UserError("oltr found no training items to make its memory of")
    sums = processes.total(sums)
    means = sums[:, :-1] / sums[:, -1:].clamp(min=1.0)
    has_items = sums[:-1, -1:] > 0
    return torch.where(has_items, means[:-1], means[-1])
