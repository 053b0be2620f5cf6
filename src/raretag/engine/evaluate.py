"""Logits of every item, in the order of the label store, whatever the number of processes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from raretag.core import processes
from raretag.core.method import Method
from raretag.engine.batches import share
from raretag.engine.loader import inputs_of
from raretag.labels.collection import Items


@torch.no_grad()
def logits_of(
    model: nn.Module,
    method: Method,
    items: Items,
    *,
    batch_size: int,
    rank: int,
    workers: int,
    place: Callable[[Tensor], Tensor],
) -> Tensor:
    """[N, C] on the CPU, the same on every process. `place` moves a batch to where the model is."""
    training = model.training
    model.eval()
    mine = share(torch.arange(len(items)), rank, processes.count())
    parts = [
        method.logits(model(place(inputs))).float()
        for _, inputs in inputs_of(items, list(mine.split(batch_size)), None, workers)
    ]
    model.train(training)
    device = next(model.parameters()).device
    return processes.rows(torch.cat(parts) if parts else torch.empty(0, items.labels.labels, device=device)).cpu()
