"""The rows of each step. The batch of all processes is the same for any number of them: each takes every n-th row."""

from __future__ import annotations

from torch import Tensor


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
