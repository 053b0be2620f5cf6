"""From terms [B, C] to one number. B counts the rows of all processes, so the number does not depend on their number.

The choice changes the effective learning rate (by C, or by B C), so it is written into every record.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from raretag.core.context import Context
from raretag.core.parts import Ratio, Reduce

Per = Literal["entries", "rows", "sum", "kept"]


class MeanOverEntries(Reduce):
    """sum / (B C). Terms that do not count are zeros in it: no label weighs more because others are unknown."""

    def forward(self, terms: Tensor, kept: Tensor) -> Ratio:
        return Ratio(terms.sum(), terms.new_tensor(float(terms.numel())))

    def over_labels(self, denominator: Tensor, columns: int, context: Context) -> Tensor:
        return denominator * (context.block.labels / columns if context.block else 1.0)


class MeanOverRows(Reduce):
    """sum over labels, mean over rows: sum / B."""

    def forward(self, terms: Tensor, kept: Tensor) -> Ratio:
        return Ratio(terms.sum(), terms.new_tensor(float(len(terms))))

    def over_labels(self, denominator: Tensor, columns: int, context: Context) -> Tensor:
        return denominator


class Sum(Reduce):
    """The plain sum over the batch of all processes."""

    def forward(self, terms: Tensor, kept: Tensor) -> Ratio:
        return Ratio(terms.sum(), None)


class MeanOverKept(Reduce):
    """sum / number of terms that count; 0 where nothing counts."""

    def forward(self, terms: Tensor, kept: Tensor) -> Ratio:
        return Ratio(terms.sum(), kept.sum().to(terms.dtype))


def reduction(per: Per) -> Reduce:
    """The option `reduce` that every method has."""
    known: dict[Per, type[Reduce]] = {
        "entries": MeanOverEntries,
        "rows": MeanOverRows,
        "sum": Sum,
        "kept": MeanOverKept,
    }
    return known[per]()
