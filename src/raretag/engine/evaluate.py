"""Logits of every item, in the order of the label store, whatever the number of processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core import processes
from raretag.core.method import Method
from raretag.data.dataset import Items
from raretag.engine.batches import share
from raretag.engine.loader import inputs_of


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
    read: Callable[[Any], Tensor] | None = None,
) -> Tensor:
    """[N, C] on the CPU, the same on every process. `place` moves a batch to where the model is.

    `read` takes something else than the method's prediction from what the model gives.
    """
    read = method.logits if read is None else read
    training = model.training
    model.eval()
    mine = share(torch.arange(len(items)), rank, processes.count())
    parts = [
        read(model(place(inputs))).float()
        for _, inputs in inputs_of(items, list(mine.split(batch_size)), None, workers)
    ]
    model.train(training)
    device = next(model.parameters()).device
    return processes.rows(torch.cat(parts) if parts else torch.empty(0, items.labels.labels, device=device)).cpu()
