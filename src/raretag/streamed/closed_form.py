"""Cross entropy without a graph: its slope on a logit is p - t, and nearly every t is 0.

The numbers are those of the objective, with fewer passes over memory. Only for an objective that is cross entropy of
the bare logits, with one weight for each label at most.
"""

from __future__ import annotations

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


HIGH = 20.0  # e^80 is still a float32


class ClosedForm:
    """The share of the loss and the slope on the logits, for one block after the other."""

    def __init__(self, method: Method, targets: ListedTargets) -> None:
        objective = method.objective
        self.targets = targets
        self.weight = objective.weigh.weight if isinstance(objective.weigh, LabelWeights) else None  # [C]
        self.ignores = type(objective.complete) is ObservedOnly
        rows, labels = targets.shape
        numbers: dict[type[Reduce], int | None] = {MeanOverEntries: rows * labels, MeanOverRows: rows, Sum: None}
        number = numbers[type(objective.reduce)]
        of_all = None if number is None else processes.total(torch.tensor(float(number), dtype=torch.float64))
        self.scale = processes.count() / (1.0 if of_all is None else max(1.0, float(of_all)))
        self.slope, self.e, self.more = (torch.empty(0) for _ in range(3))  # room for a block

    def __call__(self, logits: Tensor, numbers: slice) -> tuple[Tensor, Tensor]:
        there, unknown = self.targets.positives.within(numbers), self.targets.others.within(numbers)
        z = logits[there]
        weight = None if self.weight is None else self.weight[numbers].to(logits.dtype)
        if self.ignores:
            logits[unknown] = -torch.inf  # has neither price nor slope
        logits[there] = -torch.inf
        price, slope = self.of_negatives(logits, weight)
        of_positives = softplus(-z)
        slope[there] = -torch.sigmoid(-z)
        if weight is not None:
            of_positives = of_positives * weight[there[1]]
            slope.mul_(weight)
        return (price + of_positives.sum()).double() * self.scale, slope.mul_(self.scale)

    def of_negatives(self, z: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """The sum of log(1 + e^z), and p = e^z / (1 + e^z) for each."""
        if self.slope.shape != z.shape or self.slope.dtype != z.dtype:
            self.slope, self.e, self.more = (torch.empty_like(z) for _ in range(3))
        if weight is not None or z.numel() % 4 or float(z.max()) > HIGH:
            prices = softplus(z)
            return (prices if weight is None else prices * weight).sum(), torch.sigmoid(z, out=self.slope)
        e = torch.exp(z, out=self.e)
        more = torch.add(e, 1.0, out=self.more)
        slope = torch.div(e, more, out=self.slope)
        # (1 + a)(1 + b) = 1 + (a + (1 + a) b): one logarithm for four labels, and none of the small e^z is lost.
        e, more = e.view(2, -1), more.view(2, -1)
        two = torch.addcmul(e[0], more[0], e[1], out=e[0]).view(2, -1)
        four = torch.addcmul(two[0], two[0], two[1], out=more[0, : two.shape[1]]).add_(two[1])
        return torch.log1p(four, out=four).sum(), slope
