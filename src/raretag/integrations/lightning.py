"""PyTorch Lightning with any method of raretag as the loss.

    module = raretag.lightning.Module(net, "role", labels)
    lightning.Trainer(max_epochs=5).fit(module, module.loader(items, batch_size=32))

or, in a LightningModule of your own, the mixin `Objective`. The method is a part of the module, so what it learns and
remembers is in its parameters and checkpoints. The order of items comes from `loader`: it is shared out over processes
without being replaced, and after a resume it goes on with the right epoch. (Lightning sets a sampler's epoch after the
loader's workers have begun to read ahead; this one asks for the epoch when it is read.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from raretag.core import processes
from raretag.core.bind import Bound, bind
from raretag.core.errors import UserError
from raretag.core.lazy import needed
from raretag.core.protocols import Sampler
from raretag.core.targets import Targets
from raretag.labels.store import LabelStore
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import Scored
from raretag.sampling.stream import Stream


class Objective:
    """Put before LightningModule, this gives it a method of raretag: `class Mine(Objective, LightningModule)`.

    In `__init__`, after `super().__init__()`: `self.use("focal", labels)`. In `training_step`:
    `self.objective(logits, rows)`. Hooks of your own call `super()`.

    >>> Objective.__mro__[1] is object  # needs no Lightning until it is used
    True
    """

    trainer: Any
    objective: Bound
    order: Sampler

    def use(
        self, method: Any, labels: LabelStore, *, sampler: str | Sampler = "auto", seed: int = 0, **options: Any
    ) -> None:
        """Choose the method and its labels.

        Args:
            method: as in `raretag.bind`, with `options` if it is a name.
            labels: the LabelStore of the training items.
            sampler: the order of items: "auto" is the method's own; a name, or `labels.sampler(...)`.
            seed: of the method's draws and of the order.
        """
        self.objective = bind(method, labels, epochs=1, seed=seed, **options)  # epochs: when training begins
        name = self.objective.sampler if sampler == "auto" else sampler
        self.order = labels.sampler(name, seed=seed) if isinstance(name, str) else name
        # What a method remembers is the same everywhere by construction: to send it with each step would only cost.
        kept = [f"objective.{name}" for name, _ in self.objective.named_buffers()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self, kept)

    def loader(self, items: Any, *, batch_size: int = 32, **options: Any) -> DataLoader[Any]:
        """Training items in the sampler's order: batches of (items, rows), for any number of processes.

        Args:
            items: a torch Dataset, or anything with a length and items by number, row by row as the labels.
            batch_size: of one process.
            options: others of torch's DataLoader.
        """
        if len(items) != len(self.objective.labels):
            rows = len(self.objective.labels)
            raise UserError(f"{len(items)} items and {rows} rows of labels; expected one for each")
        # After a resume Lightning counts the epoch only when the loader has been asked already; the method knows it.
        stream = Share(self.order, lambda: max(self.objective.epoch, int(self.trainer.current_epoch)))
        return DataLoader(WithRows(items), batch_size=batch_size, sampler=stream, **options)

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """For a torch optimizer: the module's parameters, and those of the method with the paper's learning rate."""
        own = {id(parameter) for parameter in self.objective.parameters()}
        rest = [parameter for parameter in self.parameters() if id(parameter) not in own]  # type: ignore[attr-defined]
        return [{"params": rest, "lr": learning_rate}, *self.objective.parameter_groups(learning_rate)]

    def on_fit_start(self) -> None:
        """Lightning calls it."""
        self.objective.epochs = max(1, int(self.trainer.max_epochs or 1))
        super().on_fit_start()  # type: ignore[misc]

    def on_train_epoch_start(self) -> None:
        """Lightning calls it."""
        while self.objective.epoch < self.trainer.current_epoch:  # saved by a validation, before the epoch's end
            self.objective.end_epoch()
        super().on_train_epoch_start()  # type: ignore[misc]

    def on_train_epoch_end(self) -> None:
        """Lightning calls it."""
        self.objective.end_epoch()
        super().on_train_epoch_end()  # type: ignore[misc]


class Share(Stream):
    """This process's share of an order, the same number of rows in each, for the epoch that runs when it is read."""

    def __init__(self, order: Sampler, epoch_now: Callable[[], int], *, whole: bool = True) -> None:
        super().__init__(order)
        self.epoch_now, self.whole = epoch_now, whole

    def __iter__(self) -> Iterator[int]:
        return iter(self._mine().tolist())

    def __len__(self) -> int:
        return len(self._mine())

    def _mine(self) -> Tensor:
        self.epoch, self.rank, self.num_replicas = self.epoch_now(), processes.rank(), processes.count()
        rows = self.order.epoch(self.epoch)
        if self.whole:  # a process with a batch more than the others would wait for them for ever
            rows = rows[: len(rows) // self.num_replicas * self.num_replicas]
        return rows[self.rank :: self.num_replicas]


class InOrder:
    """A sampler that gives every row once, in order."""

    def __init__(self, items: int) -> None:
        self.items = items

    def epoch(self, number: int) -> Tensor:
        return torch.arange(self.items)


class WithRows(Dataset[tuple[Any, int]]):
    """Each item with its row number."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return self.items[row], row


def Module(  # noqa: N802 - it stands for a class that needs Lightning
    net: nn.Module, method: Any, labels: LabelStore, *, learning_rate: float = 1e-3, **options: Any
) -> Any:
    """A LightningModule that trains `net` with a method of raretag, and measures mAP over observed labels.

    Args:
        net: from inputs to logits [B, C]; what an item is, or the first of it if it is a tuple.
        method, labels: as in `raretag.bind`; labels of the training items.
        learning_rate: of AdamW.
        options: of `Objective.use`.

    `fit(module, module.loader(items), module.eval_loader(others, their_labels))` logs "train_loss" and "val_mAP".
    """
    return _module()(net, method, labels, learning_rate, options)


@cache
def _module() -> Any:
    base: Any = needed("lightning.pytorch", "lightning", "A module of Lightning").LightningModule

    class Module(Objective, base):  # type: ignore[misc]
        def __init__(
            self, net: nn.Module, method: Any, labels: LabelStore, learning_rate: float, options: dict[str, Any]
        ) -> None:
            super().__init__()
            self.net, self.learning_rate = net, learning_rate
            self.use(method, labels, **options)
            self.eval_labels: LabelStore | None = None
            self.scored: list[Scored] = []

        def forward(self, items: Any) -> Any:
            return self.net(items[0] if isinstance(items, (tuple, list)) else items)

        def training_step(self, batch: Any, index: int) -> Tensor:
            items, rows = batch
            loss: Tensor = self.objective(self(items), rows)
            self.log("train_loss", loss.detach(), on_epoch=True, on_step=False, batch_size=len(rows))
            return loss

        def eval_loader(self, items: Any, labels: LabelStore, *, batch_size: int = 256, **options: Any) -> Any:
            """Items to measure on, each once over all processes."""
            self.eval_labels = labels
            share = Share(InOrder(len(items)), lambda: 0, whole=False)
            return DataLoader(WithRows(items), batch_size=batch_size, sampler=share, **options)

        def validation_step(self, batch: Any, index: int) -> None:
            items, rows = batch
            assert self.eval_labels is not None
            logits = self.objective.logits(self(items)).float().cpu()
            self.scored.append(Scored(logits, self.eval_labels.targets(rows.cpu())))

        def on_validation_epoch_end(self) -> None:
            assert self.eval_labels is not None
            empty = torch.empty(0, self.eval_labels.labels)  # a process may have no item
            nothing = Scored(empty, Targets(empty, empty.bool()))
            scored = Scored.joined([nothing, *self.scored]).over_processes()
            self.scored.clear()
            found = average_precision(scored.scores, scored.targets)
            self.log("val_mAP", torch.nanmean(found).float(), prog_bar=True)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameter_groups(self.learning_rate), self.learning_rate)

    return Module
