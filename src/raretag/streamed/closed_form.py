"""Cross entropy without a graph: its slope on a logit is p - t, and nearly every t is 0.

The numbers are those of the objective, with fewer passes over memory. Only for an objective that is cross entropy of
the bare logits, with one weight for each label at most.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import softplus

from raretag.core import processes
from raretag.core.method import Method
from raretag.core.parts import Reduce
from raretag.objective.completions import ObservedOnly, UnknownIsNegative
from raretag.objective.reductions import MeanOverEntries, MeanOverRows, Sum
from raretag.objective.scores import CrossEntropy
from raretag.objective.weights import LabelWeights
from raretag.streamed.head_product import HeadProduct, Slopes
from raretag.streamed.log_sum import LogSum
from raretag.streamed.targets import ListedTargets


def has_closed_form(method: Method) -> bool:
    objective = method.objective
    return (
        type(method).loss is Method.loss
        and type(method).observe is Method.observe
        and type(objective.complete) in (ObservedOnly, UnknownIsNegative)
        and objective.shape is None
        and objective.keep is None
        and (objective.weigh is None or type(objective.weigh) is LabelWeights)
        and type(objective.score) is CrossEntropy
        and type(objective.reduce) in (MeanOverEntries, MeanOverRows, Sum)
    )


class ClosedForm:
    """The share of the loss and the slope on the logits, for one block after the other."""

    def __init__(self, method: Method, targets: ListedTargets, block: int) -> None:
        objective = method.objective
        self.targets, self.block = targets, block
        self.weight = objective.weigh.weight if isinstance(objective.weigh, LabelWeights) else None  # [C]
        self.ignores = type(objective.complete) is ObservedOnly
        rows, labels = targets.shape
        numbers: dict[type[Reduce], int | None] = {MeanOverEntries: rows * labels, MeanOverRows: rows, Sum: None}
        number = numbers[type(objective.reduce)]
        of_all = None if number is None else processes.total(torch.tensor(float(number), dtype=torch.float64))
        self.scale = processes.count() / (1.0 if of_all is None else max(1.0, float(of_all)))
        self.log_sum = LogSum()

    def slopes(self, head: HeadProduct) -> Iterator[Slopes]:
        for start in range(0, self.targets.shape[1], self.block):
            numbers = slice(start, min(start + self.block, self.targets.shape[1]))
            logits = head.logits(numbers)
            yield numbers, numbers, *self.of(logits, numbers)

    def of(self, logits: Tensor, numbers: slice) -> tuple[Tensor, Tensor]:
        there = self.targets.positives.within(numbers)
        z = logits[there]
        logits[there] = -torch.inf  # has neither price nor slope
        if self.ignores:
            logits[self.targets.others.within(numbers)] = -torch.inf
        prices, slope = self.log_sum(logits)
        slope[there] = -torch.sigmoid(-z)
        if self.weight is None:
            return slope, (prices.sum() + softplus(-z).sum()).double()
        weight = self.weight[numbers].to(logits.dtype)
        price = (softplus(logits) * weight).sum() + (softplus(-z) * weight[there[1]]).sum()
        return slope.mul_(weight), price.double()
