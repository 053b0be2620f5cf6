"""Logits of every item, in the order of the label store, whatever the number of processes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from raretag.core import processes
from raretag.engine.batches import share
from raretag.labels.collection import Items


@torch.no_grad()
def logits_of(
    model: nn.Module, items: Items, *, batch_size: int, rank: int, place: Callable[[Tensor], Tensor]
) -> Tensor:
    """[N, C] on the CPU, the same on every process. `place` moves a batch to where the model is."""
    training = model.training
    model.eval()
    mine = share(torch.arange(len(items)), rank, processes.count())
    parts = [model(place(items.inputs.batch(rows))).float().cpu() for rows in mine.split(batch_size)]
    model.train(training)
    return processes.rows(torch.cat(parts) if parts else torch.empty(0, items.labels.labels))
