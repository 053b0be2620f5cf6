"""Checkpoints that survive a crash at any moment, and the weights of the best epoch.

A checkpoint is written beside the old one and renamed when complete; the one before it is kept. Behind its content
stands a checksum of it: a file that was torn or changed, wherever that was, is not used, and the one before it is.
Read with `weights_only=True`: a foreign file cannot run code.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.core.listener import Listener

LAST, PREVIOUS = "last.ckpt", "previous.ckpt"
MARK = b"raretag sha256 "  # then the checksum of all that is before
END = b"PK\x05\x06"  # the last record of an archive


def save(folder: Path, state: dict[str, Any]) -> None:
    last = folder / LAST
    with replacing(last) as new:
        write(new, state)
        if last.exists():
            os.replace(last, folder / PREVIOUS)


def write(path: Path, state: dict[str, Any]) -> None:
    content = io.BytesIO()
    torch.save(state, content)
    with path.open("wb") as file:
        file.write(content.getbuffer())
        file.write(MARK + hashlib.sha256(content.getbuffer()).digest())


def load(folder: Path, listener: Listener) -> dict[str, Any]:
    """The newest whole checkpoint of a run."""
    for name in (LAST, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        state = read(path)
        if state is not None:
            return state
        listener.message(f"{path.name} is torn or damaged (its checksum does not fit), so the one before it is used")
        with suppress(FileNotFoundError):  # several processes find out at once
            path.rename(path.with_suffix(".torn"))  # or the next one saved would push the good one out
    raise UserError(f"there is no whole checkpoint in '{folder}' to resume from; start again with --overwrite")


def read(path: Path) -> dict[str, Any] | None:
    """What a checkpoint holds: tensors and plain values; None for anything else, of which nothing runs."""
    try:
        content = path.read_bytes()
        end = len(content) - len(MARK) - hashlib.sha256().digest_size
        if content[end : end + len(MARK)] == MARK:
            if hashlib.sha256(content[:end]).digest() != content[end + len(MARK) :]:
                return None
            content = content[:end]
        elif content[-22:-18] != END or zipfile.ZipFile(io.BytesIO(content)).testzip() is not None:
            return None  # neither one of ours nor of an older version, which ended as archives do
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # a file that is no checkpoint fails in many ways
        return None
    return state if isinstance(state, dict) else None


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
