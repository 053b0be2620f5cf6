"""Cross entropy without a graph: its slope on a logit is p - t, and nearly every t is 0.

The numbers are those of the objective, with fewer passes over memory. Only for an objective that is cross entropy of
the bare logits, with one weight for each label at most.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.method import Method
from raretag.objective.completions import ObservedOnly, UnknownIsNegative
from raretag.objective.reductions import MeanOverEntries, MeanOverRows, Sum
from raretag.objective.scores import CrossEntropy
from raretag.objective.weights import LabelWeights
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

    def __init__(self, method: Method, targets: ListedTargets) -> None:
        objective = method.objective
        self.targets = targets
        self.weight = objective.weigh.weight if isinstance(objective.weigh, LabelWeights) else None  # [C]
        self.ignores = type(objective.complete) is ObservedOnly
        rows, labels = targets.shape
        number = {MeanOverEntries: rows * labels, MeanOverRows: rows, Sum: None}[type(objective.reduce)]  # type: ignore[index]
        of_all = None if number is None else processes.total(torch.tensor(float(number), dtype=torch.float64))
        self.scale = processes.count() / (1.0 if of_all is None else max(1.0, float(of_all)))
        self.price, self.slope = torch.empty(0), torch.empty(0)

    def __call__(self, logits: Tensor, numbers: slice) -> tuple[Tensor, Tensor]:
        if self.price.shape != logits.shape or self.price.dtype != logits.dtype:
            self.price, self.slope = torch.empty_like(logits), torch.empty_like(logits)  # once, and for the last block
        price = torch._C._nn.softplus(logits, out=self.price)
        slope = torch.sigmoid(logits, out=self.slope)
        there = self.targets.positives.within(numbers)
        price[there] = torch.nn.functional.softplus(-logits[there])
        slope[there] = -torch.sigmoid(-logits[there])
        if self.ignores:
            unknown = self.targets.others.within(numbers)
            price[unknown] = slope[unknown] = 0.0
        if self.weight is not None:
            weight = self.weight[numbers].to(logits.dtype)
            price, slope = price.mul_(weight), slope.mul_(weight)
        return price.sum().double() * self.scale, slope.mul_(self.scale)
