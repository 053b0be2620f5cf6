"""One number for each item and label, in two bytes or one: what methods with pseudo-labels remember."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from raretag.core import chance
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.targets import either

Precision = Literal["float16", "uint8"]
MAP_ABOVE = 2**30  # bytes; more than this lives in a file
SAMPLE_ROWS = 10_000  # enough for a mean that is only looked at
BLOCK = 2**22  # numbers unpacked at a time


class ItemMemory(nn.Module):
    """[N, C] numbers, or NaN where there is nothing to remember.

    Stored as integers, so that `.to(dtype)` leaves them alone: the bits of a float16, or a byte (0 to 254, 255 is NaN).
    A byte is rounded up or down by chance, so that the mean of many is right and small changes are not lost for ever.
    A memory too large for the main memory is a mapped file without a name; it stays where it is when modules move.
    """

    stored: Tensor

    def __init__(
        self,
        items: int,
        initial: Tensor,  # [C], the same for each item
        *,
        precision: Precision = "float16",
        seed: int = 0,
        map_above: int = MAP_ABOVE,
    ) -> None:
        super().__init__()
        self.precision, self.seed = precision, seed
        dtype = torch.uint8 if precision == "uint8" else torch.int16
        self.mapped = items * len(initial) * dtype.itemsize > map_above
        stored = (_mapped if self.mapped else _plain)(items, len(initial), dtype)
        self.register_buffer("stored", stored)
        for rows in self.blocks():
            self.stored[rows] = self._pack(initial.expand(len(rows), -1), rows, -1)

    def read(self, items: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        """float32 [B, C], or the context's block of labels, on the device of `items`."""
        place = items.to(self.stored.device)
        block = context.block
        if block is None or isinstance(block.numbers, slice):
            found = context.of(self.stored)[place]
        else:
            numbers = block.numbers.to(place.device)  # row by row: no copy of whole rows, and quicker than at once
            found = self.stored.new_empty(len(place), len(numbers))
            for row, into in zip(place.tolist(), found, strict=True):
                torch.index_select(self.stored[row], 0, numbers, out=into)
        return self._unpack(found).to(items.device)

    def write(self, items: Tensor, values: Tensor, epoch: int, context: Context = NO_CONTEXT) -> None:
        """An item that comes twice is written once: the last one counts."""
        items, values = items.to(self.stored.device), values.to(self.stored.device)
        once, place = torch.unique(items, return_inverse=True)
        last = torch.zeros_like(once).scatter_reduce_(0, place, torch.arange(len(items), device=items.device), "amax")
        packed = self._pack(values[last], once, epoch, context)
        block = context.block
        if block is None or isinstance(block.numbers, slice):
            context.of(self.stored)[once] = packed
        else:
            numbers = block.numbers.to(once.device)
            for row, values in zip(once.tolist(), packed, strict=True):
                self.stored[row].index_copy_(0, numbers, values)

    def rewrite(self, change: Callable[[Tensor], Tensor], epoch: int) -> None:
        """Change every number, a block of rows at a time."""
        for rows in self.blocks():
            self.stored[rows] = self._pack(change(self.read(rows)), rows, epoch)

    def mean(self, change: Callable[[Tensor], Tensor] | None = None, *, sample: int | None = None) -> Tensor:
        """The mean for each label [C] of what is not NaN, or of a change of it; of `sample` evenly spaced rows."""
        labels = self.stored.shape[1]
        total, number = torch.zeros(2, labels, dtype=torch.float64, device=self.stored.device)
        for rows in self.blocks(1 if sample is None else max(1, len(self.stored) // sample)):
            values = self.read(rows)
            values = values if change is None else change(values)
            total += values.double().nansum(0)
            number += (~values.isnan()).sum(0)
        mean: Tensor = total / number.clamp(min=1.0)
        return mean

    def blocks(self, stride: int = 1) -> Iterator[Tensor]:
        rows = torch.arange(0, len(self.stored), stride, device=self.stored.device)
        return iter(torch.split(rows, max(1, BLOCK // max(1, self.stored.shape[1]))))

    def _pack(self, values: Tensor, rows: Tensor, epoch: int, context: Context = NO_CONTEXT) -> Tensor:
        if self.precision == "float16":
            return values.half().view(torch.int16)
        up = chance.uniform(self.seed, epoch, rows[:, None], context.columns(values))
        return (values.double() * 254.0 + up).floor().nan_to_num(255.0).to(torch.uint8)

    def _unpack(self, stored: Tensor) -> Tensor:
        if self.precision == "float16":
            return stored.view(torch.float16).float()
        return either(stored == 255, torch.nan, stored.float() / 254.0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ItemMemory:
        if not self.mapped:
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def align(memory: ItemMemory, prior: Tensor, epoch: int) -> None:
    """Shift the logits of each label's pseudo-labels so that their mean is the prior, found by halving an interval."""

    def shifted(t: Tensor, shift: Tensor) -> Tensor:
        # Two bytes cannot separate numbers above 1 - 2^-12 from 1, which has no logit.
        return torch.sigmoid(torch.logit(t.double().clamp(1e-7, 1.0 - 2.0**-12)) + shift)

    prior = prior.to(memory.stored.device)
    low, high = torch.full_like(prior, -32.0), torch.full_like(prior, 32.0)
    for _ in range(30):
        middle = (low + high) / 2.0
        short = memory.mean(lambda t, shift=middle: shifted(t, shift)) < prior  # type: ignore[misc]
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    memory.rewrite(lambda t: shifted(t, (low + high) / 2.0), epoch)


def _plain(items: int, labels: int, dtype: torch.dtype) -> Tensor:
    return torch.zeros(items, labels, dtype=dtype)


def _mapped(items: int, labels: int, dtype: torch.dtype) -> Tensor:
    handle, path = tempfile.mkstemp(prefix="raretag-memory-")
    os.close(handle)
    try:
        return torch.from_file(path, shared=True, size=items * labels, dtype=dtype).view(items, labels)
    finally:
        os.unlink(path)  # the mapping keeps it alive; nothing is left behind after a crash
