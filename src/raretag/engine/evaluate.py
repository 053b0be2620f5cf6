"""What a model gives for every item, whatever the number of processes, and the metrics that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from raretag.core import processes
from raretag.core.targets import Targets
from raretag.data.dataset import Items
from raretag.engine.loader import inputs_of, share


def placed(fabric: Fabric, model: nn.Module, inputs: Tensor) -> Tensor:
    """Inputs where the model is, and as precise."""
    dtype = next(model.parameters()).dtype
    moved: Tensor = fabric.to_device(inputs.to(dtype) if inputs.is_floating_point() else inputs)
    return moved


@torch.no_grad()
def logits_of(
    model: nn.Module,
    items: Items,
    read: Callable[[Any], Tensor],
    *,
    batch_size: int,
    rank: int,
    workers: int,
    place: Callable[[Tensor], Tensor],
) -> Tensor:
    """[N, C] on the CPU in the order of the label store, the same on every process.

    `read` takes the prediction from the model's outputs, and `place` moves a batch to where the model is.
    """
    training = model.training
    model.eval()
    mine = share(torch.arange(len(items)), rank, processes.count())
    batches = list(mine.split(batch_size)) if len(mine) else []
    parts = [read(model(place(inputs))).float() for _, inputs in inputs_of(items, batches, None, workers)]
    model.train(training)
    device = next(model.parameters()).device
    return processes.rows(torch.cat(parts) if parts else torch.empty(0, items.labels.labels, device=device)).cpu()


@torch.no_grad()
def features_of(model: nn.Module, items: Items, fabric: Fabric, rows_at_once: int) -> Iterator[tuple[Tensor, Targets]]:
    """Features of the model's backbone and the labels, for this process's share of the items."""
    model.eval()
    backbone = model.get_submodule("backbone")
    mine = share(torch.arange(len(items)), fabric.global_rank, processes.count())
    for rows in mine.split(rows_at_once):
        inputs = placed(fabric, model, items.inputs.batch(rows))
        yield backbone(inputs), items.labels.targets(rows).to(fabric.device)
