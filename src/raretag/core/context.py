"""Where training stands."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.label_block import LabelBlock, Merge


@dataclass(frozen=True, slots=True)
class Context:
    """Which items a batch holds, and which epoch runs. Methods without memory or schedule ignore it.

    Where labels pass in blocks, it also says which labels the columns are. A part that has one number for each label
    takes them with `of`, and one that looks along a whole row makes its sum with `total`; without blocks both give
    back what they get.
    """

    index: Tensor | None = None  # [B] int64, row numbers in the label store
    epoch: int = 0  # counted from 0
    epochs: int = 1
    block: LabelBlock | None = None  # None: the columns are all labels

    @property
    def items(self) -> Tensor:
        """The row numbers, for methods that cannot do without them."""
        if self.index is None:
            raise UserError(
                "this method remembers items: pass Context(index=rows, ...) with the row number of each item"
            )
        return self.index

    @property
    def first(self) -> bool:
        """Whether what belongs to the batch, not to a label, is to be counted now."""
        return self.block is None or self.block.first

    @property
    def learning(self) -> bool:
        """False while labels pass only to be summed."""
        return self.block is None or self.block.survey.learning

    def labels(self, logits: Tensor) -> int:
        """C, of which the columns may be a block."""
        return logits.shape[1] if self.block is None else self.block.labels

    def columns(self, logits: Tensor) -> Tensor:
        """The number of each column's label, int64."""
        if self.block is None:
            return torch.arange(logits.shape[1], device=logits.device)
        numbers = self.block.numbers
        if isinstance(numbers, slice):
            return torch.arange(numbers.start, numbers.stop, device=logits.device)
        return numbers.to(logits.device)

    def of(self, values: Tensor) -> Tensor:
        """The columns' share of [..., C]."""
        return values if self.block is None else values[..., self.block.numbers]

    def add(self, values: Tensor, change: Tensor) -> None:
        """Add to the columns' share of [..., C] in place."""
        if self.block is None:
            values += change
        else:
            values[..., self.block.numbers] += change

    def set(self, values: Tensor, new: Tensor | float) -> None:
        """Write the columns' share of [..., C] in place."""
        values[..., slice(None) if self.block is None else self.block.numbers] = new

    def total(self, share: Tensor, merge: Merge = torch.add, *, after: bool = False) -> Tensor:
        """From this block's share to what all labels give. `after`: the share depends on an earlier total."""
        return share if self.block is None else self.block.survey.total(share, merge, after)


NOWHERE = Context()
