"""The training loop: a generator. The caller logs, saves, evaluates and stops; this only learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from raretag.core import chance, processes
from raretag.core.context import Context
from raretag.core.method import Method
from raretag.engine.batches import cut, share
from raretag.engine.config import Train
from raretag.engine.schedule import factor
from raretag.labels.collection import Items


class Sampler(Protocol):
    def epoch(self, number: int) -> Tensor: ...


@dataclass(slots=True)
class Progress:
    """Where the run stands: the next batch to train on."""

    epoch: int = 0
    batch: int = 0  # within the epoch
    step: int = 0  # since the start
    loss_sum: float = 0.0  # of the running epoch


@dataclass(frozen=True, slots=True)
class Step:
    epoch: int
    step: int
    loss: float
    learning_rate: float
    ends_epoch: bool
    mean_loss: float  # of the epoch so far


@dataclass
class Training:
    """Everything that changes while learning, and so belongs into a checkpoint."""

    fabric: Fabric
    model: nn.Module
    method: Method
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    items: Items
    settings: Train
    seed: int
    progress: Progress

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])


def fit(training: Training) -> Iterator[Step]:
    """One optimiser step per item. State may be saved between any two of them: resuming there changes nothing."""
    settings, progress, fabric = training.settings, training.progress, training.fabric
    peaks = [group.setdefault("peak", group["lr"]) for group in training.optimizer.param_groups]
    training.method.train()
    while progress.epoch < settings.epochs:
        batches = cut(training.sampler.epoch(progress.epoch), settings.batch_size)
        for batch in batches[progress.batch :]:
            rows = share(batch, fabric.global_rank, processes.count())
            done = (progress.epoch + (progress.batch + 0.5) / len(batches)) / settings.epochs  # at the step's middle
            rate = factor(settings, done)
            for group, peak in zip(training.optimizer.param_groups, peaks, strict=True):
                group["lr"] = rate * peak
            loss = learn(training, rows)

            epoch = progress.epoch
            progress.step += 1
            progress.batch += 1
            progress.loss_sum += loss
            mean = progress.loss_sum / progress.batch
            ends = progress.batch == len(batches)
            if ends:
                training.method.end_epoch(Context(epoch=epoch, epochs=settings.epochs))
                progress.epoch, progress.batch, progress.loss_sum = epoch + 1, 0, 0.0
            yield Step(epoch, progress.step, loss, rate * peaks[0], ends, mean)


def learn(training: Training, rows: Tensor) -> float:
    """One step on these rows of the training set; the loss of the batch of all processes."""
    fabric, settings, progress = training.fabric, training.settings, training.progress
    # Dropout and augmentation draw from here: a step's draws depend on the step, not on what ran before it.
    torch.manual_seed(int(chance.key(training.seed, progress.step, fabric.global_rank)))
    inputs = fabric.to_device(training.items.inputs.batch(rows, progress.epoch))
    targets = training.items.labels.targets(rows).to(fabric.device)
    context = Context(index=rows.to(fabric.device), epoch=progress.epoch, epochs=settings.epochs)
    training.model.train()
    loss = training.method.loss(training.model(inputs), targets, context)
    fabric.backward(loss)
    if settings.clip is not None:
        fabric.clip_gradients(training.model, training.optimizer, max_norm=settings.clip)
    training.optimizer.step()
    training.optimizer.zero_grad(set_to_none=True)
    return float(processes.total(loss)) / processes.count()
