"""The rows of each step, and their inputs, loaded ahead by other processes where that pays.

The batch of all processes is the same for any number of them: each takes every n-th row.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from raretag.data.dataset import Inputs, Items


def cut(order: Tensor, size: int) -> list[Tensor]:
    """An epoch's order in batches of `size`. A rest smaller than half a batch joins the batch before it.

    So nothing is dropped and nothing is seen twice; with 2 x processes rows a batch, every process has a row.
    """
    batches = list(order.split(size))
    if len(batches) > 1 and len(batches[-1]) < size / 2:
        rest = batches.pop()
        batches[-1] = order[len(order) - len(rest) - len(batches[-1]) :]
    return batches


def share(rows: Tensor, rank: int, processes: int) -> Tensor:
    return rows[rank::processes]


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
