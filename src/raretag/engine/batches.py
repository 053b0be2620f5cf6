"""The rows of each step and their inputs, and what a model gives for all items.

The batch of all processes is the same for any number of them: each takes every n-th row.

At the end, the processes themselves. Loading Lightning Fabric takes a second and 150 MB. One process needs nothing of
it until a network is trained or a device is asked for, and a ranker does neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from raretag.config.settings import Train
from raretag.core import processes
from raretag.core.errors import UserError
from raretag.core.protocols import Inputs
from raretag.core.targets import Targets
from raretag.data.dataset import Items
from raretag.models.scaling import sparse_features

if TYPE_CHECKING:
    from lightning_fabric import Fabric


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
def features_of(
    model: nn.Module, items: Items, fabric: Fabric, rows_at_once: int, *, keep_sparse: bool = False
) -> Iterator[tuple[Any, Targets]]:
    """Features of the model's backbone and the labels, for this process's share of the items.

    With `keep_sparse`, inputs that are held sparse stay so (scipy's CSR) where the backbone leaves zeros alone.
    """
    model.eval()
    backbone = model.get_submodule("backbone")
    mine = share(torch.arange(len(items)), fabric.global_rank, processes.count())
    keep_sparse = keep_sparse and processes.count() == 1  # several processes exchange tensors
    for rows in mine.split(rows_at_once):
        targets = items.labels.targets(rows).to(fabric.device)
        x = sparse_features(backbone, items.inputs, rows) if keep_sparse else None
        yield backbone(placed(fabric, model, items.inputs.batch(rows))) if x is None else x, targets


def build_fabric(train: Train) -> Fabric:
    """One process, several that Fabric starts (`devices`), or those that torchrun or a cluster has started."""
    there = train.accelerator in ("auto", "cpu")  # any other may be missing, which is found out now
    if train.devices * train.nodes == 1 and there and not processes.started_by_others():
        return cast("Fabric", OneProcess(train))
    started = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    return made(train, started or train.devices, int(os.environ["WORLD_SIZE"]) // started if started else train.nodes)


def made(train: Train, devices: int, nodes: int) -> Fabric:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    try:
        return Fabric(
            accelerator=train.accelerator,
            devices=devices,
            num_nodes=nodes,
            precision="32-true" if train.precision == "64-true" else train.precision,  # see `assembled`
            # Buffers are the same on every process by construction; sending them each step would only cost time.
            strategy=DDPStrategy(broadcast_buffers=False) if devices * nodes > 1 else "auto",
        )
    except (RuntimeError, ValueError) as error:
        raise UserError(f"train.accelerator={train.accelerator}, {devices} devices: {error}") from None


class OneProcess:
    """A Fabric of one process, made when something needs more of it than the answers that one process always gives."""

    is_global_zero, global_rank, world_size = True, 0, 1

    def __init__(self, train: Train) -> None:
        self._train = train

    @cached_property
    def _whole(self) -> Any:
        return made(self._train, 1, 1)

    def launch(self) -> None:
        pass

    def barrier(self) -> None:
        pass

    def broadcast(self, value: Any) -> Any:
        return value

    def rank_zero_first(self) -> AbstractContextManager[None]:
        return nullcontext()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)
