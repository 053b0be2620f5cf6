"""A block of labels while a large label space passes in blocks, and what must be known of all labels at once.

The loss of a method is a sum over labels, except for what it takes from whole rows: a number of labels, a softmax, the
largest prediction. Such a number is made with `context.total(share)`. Without blocks that is the share itself. With
blocks a first pass collects the shares, and in the last pass every block sees the whole. The n-th total that a method
asks for in one block is the n-th in every block, so totals need no names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

Merge = Callable[[Tensor, Tensor], Tensor]


class Survey:
    """The totals over all blocks.

    A total may carry a gradient to every block. It is then a leaf of each block's graph: `slopes` collects what the
    blocks say of it, and `debts` is what a block owes to the labels it does not hold.
    """

    def __init__(self) -> None:
        self.known: list[Tensor] = []
        self.gathered: dict[int, Tensor] = {}
        self.slopes: list[Tensor | None] = []
        self.learning = False  # the last pass, in which the method may observe
        self.incomplete = self.deferred = self.carries_gradient = False
        self._begin()

    def _begin(self) -> None:
        self.asked = 0
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
        number, self.asked = self.asked, self.asked + 1
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
        """Add what this block's share of the loss says of each total."""
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
