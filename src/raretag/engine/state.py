"""Checkpoints that survive a crash at any moment.

A checkpoint is written beside the old one and renamed when complete; the one before it is kept. A torn file is found by
the checksums inside it, and the one before is used. Read with `weights_only=True`: a foreign file cannot run code.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from raretag.core.errors import UserError

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


def load(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The newest whole checkpoint of a run."""
    for name in (LAST, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        if whole(path):
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            return state
        say(f"{path.name} is torn (the run was probably killed while writing it); using the one before it")
        path.rename(path.with_suffix(".torn"))  # or the next one saved would push the good one out
    raise UserError(f"there is no whole checkpoint in '{folder}' to resume from; start again with --overwrite")


def whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError):
        return False
