"""Steps without a graph, for two methods whose slopes have a formula: the same numbers with fewer passes over memory.

`ClosedForm`: cross entropy of the bare logits, with one weight for each label at most. Its slope on a logit is p - t,
and nearly every t is 0.

`Sampled`: dynamic_pseudo_labels with draw="labels". Nearly all multiplied labels are unknown: their weight u is one
number for each row, and the price of a logit and its slope are

    u (c log(1 + e^z) - alpha y~ z),    u (c p - alpha y~),    c = beta + (alpha - beta) y~

The few observed ones are taken out first. The numbers are those of the method (methods/dynamic_pseudo_labels.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import softplus

from raretag.core import processes
from raretag.core.context import Context, LabelBlock
from raretag.core.method import Method
from raretag.core.parts import Reduce
from raretag.methods.dynamic_pseudo_labels import DynamicPseudoLabels, ItemWeights, Remembered
from raretag.objective.completions import ObservedOnly, UnknownIsNegative
from raretag.objective.reductions import MeanOverEntries, MeanOverRows, Sum
from raretag.objective.scores import BatchBalance, CrossEntropy
from raretag.objective.weights import LabelWeights
from raretag.streamed.products import HeadProduct, LogSum, Slopes
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


KEEP = 2**25  # logits that are kept from the first look at them to the second
OUT = -1e4  # a logit without a price


def is_sampled(method: Method) -> bool:
    objective = method.objective
    return (
        type(method) is DynamicPseudoLabels
        and isinstance(objective.complete, Remembered)
        and objective.complete.draw == "labels"
        and type(objective.reduce) is MeanOverRows
    )


class Sampled:
    def __init__(self, method: Method, targets: ListedTargets, context: Context, union: Tensor, block: int) -> None:
        objective = method.objective
        assert isinstance(objective.complete, Remembered)
        assert isinstance(objective.weigh, ItemWeights)
        assert isinstance(objective.score, BatchBalance)
        self.remembered, self.weigh, self.balanced = objective.complete, objective.weigh, objective.score
        self.learns, self.targets, self.context, self.union = method.training, targets, context, union
        wanted = self.remembered.multiplied(targets.shape[1], context)
        assert wanted is not None
        self.picked = wanted.to(union.device)
        place = torch.searchsorted(self.picked, union).clamp(max=max(len(self.picked) - 1, 0))
        rest = union if not len(self.picked) else union[self.picked[place] != union]
        # Labels that are picked and labels that are only observed do not share a block.
        self.blocks = [(some, True) for some in torch.split(self.picked, block) if len(some)]
        self.blocks += [(some, False) for some in torch.split(rest, block) if len(some)]
        rows = processes.total(torch.tensor(float(len(targets)), dtype=torch.float64)).clamp(min=1.0)
        self.scale = processes.count() / float(rows)
        self.log_sum = LogSum()

    def slopes(self, head: HeadProduct) -> Iterator[Slopes]:
        like = head.features[0]
        kept = self.look(head)
        of_observed, of_unknown = self.weights(like)  # p / N_e and p d / (q N_ne), [B, 1] each
        beta_observed, beta = self.betas(like)
        for number, (labels, is_picked) in enumerate(self.blocks):
            z = kept.pop(number) if number in kept else head.logits(labels)
            there, absent = self.targets.positives.within(labels), self.targets.others.within(labels)
            z_there, z_absent = z[there], z[absent]
            z[there] = z[absent] = OUT
            y = self.recall(labels, like)
            y[there] = y[absent] = 0.0
            if is_picked:
                price, slope, y = self.of_unknown(z, y, labels, of_unknown, beta)
            else:
                price, slope = like.new_zeros(()), torch.zeros_like(z)
            if self.learns:
                y[there] = y[absent] = torch.nan  # nothing to remember where the label was observed
                self.remember(labels, y)
            up, down = of_observed[there[0], 0] * (1.0 - beta_observed), of_observed[absent[0], 0] * beta_observed
            slope[there], slope[absent] = -up * torch.sigmoid(-z_there), down * torch.sigmoid(z_absent)
            price = price + (up * softplus(-z_there)).sum() + (down * softplus(z_absent)).sum()
            yield labels, torch.searchsorted(self.union, labels), slope, price.double()

    def recall(self, labels: Tensor, like: Tensor) -> Tensor:
        return self.remembered.recall(self.context.items, like, self.of_block(labels)).to(like.device)

    def remember(self, labels: Tensor, y: Tensor) -> None:
        items = processes.rows(self.context.items.to(y.device))
        self.remembered.memory.write(items, processes.rows(y), self.context.epoch, self.of_block(labels))

    def of_block(self, labels: Tensor) -> Context:
        return replace(self.context, block=LabelBlock(labels, self.targets.shape[1]))

    def look(self, head: HeadProduct) -> dict[int, Tensor]:
        """Which rows have a prediction above .1; the logits, if there is room for them."""
        self.predicts = torch.zeros(len(self.targets), dtype=torch.bool, device=head.features[0].device)
        kept: dict[int, Tensor] = {}
        if self.weigh.penalty:
            for number, (labels, is_picked) in enumerate(self.blocks):
                z = head.logits(labels)
                if len(self.union) * len(z) <= KEEP:
                    kept[number] = z
                if is_picked:
                    self.predicts |= torch.sigmoid(z.amax(1)) > 0.1
                for listed in (self.targets.positives, self.targets.others):
                    row, column = listed.within(labels)
                    self.predicts[row[torch.sigmoid(z[row, column]) > 0.1]] = True
        return kept

    def weights(self, like: Tensor) -> tuple[Tensor, Tensor]:
        observed, both = self.targets.counts(None), self.targets.counts(self.picked)
        return self.weigh.of_rows(
            observed[:, None], len(self.picked) - both[:, None], self.predicts[:, None], self.context, like.dtype
        )

    def betas(self, like: Tensor) -> tuple[float, float]:
        """beta of observed and of unknown labels."""
        observed = len(self.targets.positives.row) + len(self.targets.others.row)
        slots = observed if self.balanced.total == "observed" else self.targets.shape[0] * self.targets.shape[1]
        P, T = (like.new_tensor(float(number)) for number in (len(self.targets.positives.row), slots))
        beta = float(self.balanced.of_counts(P, T))
        return beta, beta if self.balanced.on == "all" else 0.5

    def of_unknown(
        self, z: Tensor, y: Tensor, labels: Tensor, weight: Tensor, beta: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The price of a block, its slopes, and what to remember."""
        sums, p = self.log_sum(z)
        new = self.remembered.renewed(y, p, self.of_block(labels)) if self.learns else y
        alpha = 1.0 - beta
        if alpha == beta:
            price = beta * sums - alpha * torch.einsum("bc,bc->b", y, z)
            slope = p.sub_(y).mul_(weight * beta)
        else:
            c = beta + (alpha - beta) * y
            price = (c * softplus(z) - alpha * y * z).sum(1)
            slope = (c * p - alpha * y).mul_(weight)
        return (weight[:, 0] * price).sum(), slope, new
