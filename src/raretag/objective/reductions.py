"""From terms [B, C] to one number. B counts the rows of all processes, so the number does not depend on their number.

The choice changes the effective learning rate (by C, or by B C), so it is written into every record.
`expected_count_penalty` is the one term that methods add to the reduced loss.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Size, Tensor

from raretag.core import processes
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.parts import Ratio, Reduce

Per = Literal["entries", "rows", "sum", "kept"]


class OfSums(Reduce):
    """Needs the sum of the terms alone."""

    def forward(self, terms: Tensor, kept: Tensor) -> Ratio:
        return self.of_sums(terms.sum(), kept.sum(), terms.shape)


class MeanOverEntries(OfSums):
    """sum / (B C). Terms that do not count are zeros in it: no label weighs more because others are unknown."""

    asks_number = False

    def of_sums(self, total: Tensor, number: Tensor, shape: Size) -> Ratio:
        return Ratio(total, total.new_tensor(float(shape.numel())))

    def over_labels(self, denominator: Tensor, columns: int, context: Context) -> Tensor:
        return denominator * (context.block.labels / columns if context.block else 1.0)


class MeanOverRows(OfSums):
    """sum over labels, mean over rows: sum / B."""

    asks_number = False

    def of_sums(self, total: Tensor, number: Tensor, shape: Size) -> Ratio:
        return Ratio(total, total.new_tensor(float(shape[0])))

    def over_labels(self, denominator: Tensor, columns: int, context: Context) -> Tensor:
        return denominator


class Sum(OfSums):
    """The plain sum over the batch of all processes."""

    asks_number = False

    def of_sums(self, total: Tensor, number: Tensor, shape: Size) -> Ratio:
        return Ratio(total, None)


class MeanOverKept(OfSums):
    """sum / number of terms that count; 0 where nothing counts."""

    def of_sums(self, total: Tensor, number: Tensor, shape: Size) -> Ratio:
        return Ratio(total, number.to(total.dtype))


def reduction(per: Per) -> Reduce:
    """The option `reduce` that every method has."""
    known: dict[Per, type[Reduce]] = {
        "entries": MeanOverEntries,
        "rows": MeanOverRows,
        "sum": Sum,
        "kept": MeanOverKept,
    }
    return known[per]()


def expected_count_penalty(p: Tensor, expected: Tensor, context: Context = NO_CONTEXT) -> Tensor:
    """How far the predicted number of labels of an item is from the expected one, k.

    ((mean over items of sum over labels of p) - k)^2 / C^2, with the mean over the batch of all processes.

    The value is the same on every process. A process has a gradient for its own rows only, times the number of
    processes, so that the average over processes is the gradient of the one penalty.
    """
    rows = processes.total(p.new_tensor(float(len(p)))).clamp(min=1.0)
    share = context.total(p.sum()) / rows
    count = processes.total(share) + processes.count() * (share - share.detach())
    penalty = ((count - expected.to(p.dtype)) / max(1, context.labels(p))).square()
    return penalty if context.first else torch.zeros_like(penalty)  # of the batch, not of each block of labels
