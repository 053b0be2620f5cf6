"""Inputs, loaded ahead by other processes where that pays."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from raretag.data.dataset import Inputs, Items


def inputs_of(items: Items, shares: list[Tensor], epoch: int | None, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows of each step and their inputs, in order. The order was decided before; nothing here shuffles."""
    if workers == 0:
        for rows in shares:
            yield rows, items.inputs.batch(rows, epoch)
        return
    ahead: DataLoader[Tensor] = DataLoader(
        Batches(items.inputs, shares, epoch), batch_size=None, num_workers=workers, prefetch_factor=2
    )
    yield from zip(shares, ahead, strict=True)


class Batches(Dataset[Tensor]):
    """Whole batches by number, as workers ask for them."""

    def __init__(self, inputs: Inputs, shares: list[Tensor], epoch: int | None) -> None:
        self.inputs, self.shares, self.epoch = inputs, shares, epoch

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, number: int) -> Tensor:
        return self.inputs.batch(self.shares[number], self.epoch)
