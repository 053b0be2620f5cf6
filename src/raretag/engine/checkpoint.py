"""Checkpoints that survive a crash at any moment, and the weights of the best epoch.

A checkpoint is written beside the old one and renamed when complete; the one before it is kept. A torn file is found by
the checksums inside it, and the one before is used. Read with `weights_only=True`: a foreign file cannot run code.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.listener import Listener

LAST, PREVIOUS = "last.ckpt", "previous.ckpt"


def save(folder: Path, state: dict[str, Any]) -> None:
    new = folder / f"{LAST}.new"
    with new.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    last = folder / LAST
    if last.exists():
        os.replace(last, folder / PREVIOUS)
    os.replace(new, last)


def load(folder: Path, listener: Listener) -> dict[str, Any]:
    """The newest whole checkpoint of a run."""
    for name in (LAST, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        state = read(path) if whole(path) else None
        if state is not None:
            return state
        listener.message(f"{path.name} is torn (the run was probably killed while writing it); using the one before it")
        path.rename(path.with_suffix(".torn"))  # or the next one saved would push the good one out
    raise UserError(f"there is no whole checkpoint in '{folder}' to resume from; start again with --overwrite")


def read(path: Path) -> dict[str, Any] | None:
    """What a checkpoint holds: tensors and plain values; None for anything else, of which nothing runs."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # a file that is no checkpoint fails in many ways
        return None
    return state if isinstance(state, dict) else None


def whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError):
        return False


class Best:
    """Early stopping: the weights of the epoch with the best validation mAP.

    Does nothing where no patience is set: then the last epoch is the model.
    """

    def __init__(self, weights: dict[str, Tensor] | None = None) -> None:
        self.weights = weights

    def consider(self, history: list[dict[str, Any]], model: nn.Module, patience: int | None) -> None:
        """`history` holds the epochs of the last stage: earlier ones prepare for it and are not the model."""
        if patience is not None and history and best_epoch(history) == len(history) - 1:
            self.weights = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}

    def is_over(self, history: list[dict[str, Any]], patience: int | None) -> bool:
        return patience is not None and len(history) - 1 - best_epoch(history) >= patience

    def restore(self, model: nn.Module) -> None:
        if self.weights is not None:
            model.load_state_dict(self.weights)


def best_epoch(history: list[dict[str, Any]]) -> int:
    """The first of the best; an epoch whose mAP could not be measured is the worst."""
    values = [row["validation"]["mAP"]["total"] for row in history]
    return max(range(len(values)), key=lambda epoch: -1.0 if values[epoch] is None else values[epoch], default=0)
