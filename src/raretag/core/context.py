"""Where training stands: items, epoch, and which labels the columns are.

A large label space passes in blocks (`LabelBlock`). The loss of a method is a sum over labels, except for what it takes
from whole rows: a number of labels, a softmax, the largest prediction. Such a number is made with
`context.total(share)`. Without blocks that is the share itself. With blocks a first pass collects the shares, and in
the last pass every block gets the whole. The n-th total that a method asks for in one block is the n-th in every block,
so totals need no names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from raretag.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Context:
    """Which items a batch holds, and which epoch runs. Methods without memory or schedule ignore it.

    >>> import torch, raretag
    >>> context = raretag.Context(index=torch.tensor([4, 0, 7]), epoch=3, epochs=10)
    >>> context.items, context.has_begun(0.3)
    (tensor([4, 0, 7]), True)

    Where labels pass in blocks, it also holds which labels the columns are. A part that has one number for each label
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

    def has_begun(self, share: float) -> bool:
        """Whether this share of all epochs is over: 0.1 of 30 epochs is over from epoch 3 (counted from 0) on."""
        if not 0 <= share <= 1:
            raise UserError(f"a share of the epochs must lie in [0, 1], got {share}")
        return self.epoch >= share * self.epochs - 1e-9  # 0.07 * 100 is 7.000000000000001

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


NO_CONTEXT = Context()


Merge = Callable[[Tensor, Tensor], Tensor]


class Survey:
    """The totals over all blocks.

    A total may carry a gradient to every block. It is then a leaf of each block's graph: `slopes` collects its
    derivatives in the blocks, and `debts` is what a block owes to the labels it does not hold.
    """

    def __init__(self) -> None:
        self.known: list[Tensor] = []
        self.gathered: dict[int, Tensor] = {}
        self.slopes: list[Tensor | None] = []
        self.learning = False  # the last pass, in which the method may observe
        self.incomplete = self.deferred = self.carries_gradient = False
        self._begin()

    def _begin(self) -> None:
        self.requested = 0
        self.leaves: dict[int, Tensor] = {}
        self.shares: dict[int, tuple[Tensor, Merge]] = {}

    def begin_block(self) -> None:
        self._begin()

    def begin_pass(self) -> None:
        self.gathered, self.incomplete, self.deferred = {}, False, False

    def end_pass(self) -> None:
        """What was gathered is known from now on. Totals that had to wait for others are asked for again."""
        self.known += [self.gathered[number] for number in sorted(self.gathered)]
        self.slopes = [None] * len(self.known)

    def total(self, share: Tensor, merge: Merge, after: bool) -> Tensor:
        number, self.requested = self.requested, self.requested + 1
        if number < len(self.known):
            if not share.requires_grad:
                return self.known[number]
            self.shares[number] = share, merge
            return self.leaves.setdefault(number, self.known[number].detach().requires_grad_())
        self.incomplete = True
        self.carries_gradient |= share.requires_grad
        waits = after and any(one < number for one in self.gathered)
        if not waits and number == len(self.known) + len([one for one in self.gathered if one < number]):
            before = self.gathered.get(number)
            share = share.detach()
            self.gathered[number] = share if before is None else merge(before, share)
        else:
            self.deferred = True
        return share

    def learn_slopes(self, loss: Tensor) -> None:
        """Add the derivatives of this block's share of the loss by each total."""
        if self.leaves and loss.requires_grad:
            numbers = list(self.leaves)
            found = torch.autograd.grad(loss, [self.leaves[one] for one in numbers], allow_unused=True)
            for number, slope in zip(numbers, found, strict=True):
                before = self.slopes[number]
                if slope is not None:
                    self.slopes[number] = slope if before is None else before + slope

    def debts(self) -> list[Tensor]:
        """One number for each total with a gradient: what this block's share of it does to the whole loss."""
        owed = []
        for number, (share, merge) in self.shares.items():
            slope = self.slopes[number]
            if slope is not None:
                # d total / d share is 1 for a sum
                rate = torch.exp(share.detach() - self.known[number]) if merge is torch.logaddexp else 1.0
                owed.append((slope * rate * share).sum())
        return owed


@dataclass(frozen=True, slots=True)
class LabelBlock:
    numbers: slice | Tensor  # which labels the columns are; a tensor has no number twice
    labels: int  # C, of which these are some
    first: bool = True  # what belongs to the batch and not to its labels is done once, with the first block
    survey: Survey = field(default_factory=Survey)
