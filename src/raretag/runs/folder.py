"""The files of a run: what may happen to a folder that is there, a new one, and the log of its epochs.

Loads no torch, so that mistakes are found before anything else is.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from raretag.config.settings import Config, flat
from raretag.core.errors import UserError
from raretag.core.files import without_nan, write_text


def refuse_existing(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Nothing is replaced unless the user says so, and then only a run."""
    if not folder.exists() or resume:
        return
    if not folder.is_dir():
        raise UserError(f"'{folder}' is a file; expected the name of a folder for the run")
    if not overwrite:
        raise UserError(
            f"the run folder '{folder}' exists; continue it with --resume, replace it with --overwrite, "
            "or name another with --out"
        )
    if any(folder.iterdir()) and not (folder / "config.yaml").exists():
        raise UserError(f"'{folder}' is not a run folder (no config.yaml in it), so --overwrite leaves it alone")
    listed = folder / "suggestions"
    if listed.is_dir() and any(listed.iterdir()):
        raise UserError(f"'{listed}' may hold answers, so --overwrite leaves it alone: move it, or name another --out")


def is_finished(folder: Path) -> bool:
    """Whether the last file of a run is written, so that there is nothing to resume."""
    return all((folder / name).is_file() for name in ("record.json", "card.json", "evidence.safetensors"))


def start_folder(folder: Path, config: Config) -> None:
    """An empty folder with the configuration."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"the run folder '{folder}' cannot be made: {error.strerror}") from None
    write_text(folder / "config.yaml", config.to_yaml())


class Log:
    """One line of JSON for each epoch, and the same numbers for TensorBoard.

    Starts from the epochs that a checkpoint already has, so that a resumed run leaves no line twice.
    """

    def __init__(self, folder: Path, history: list[dict[str, Any]]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        write_text(self.path, "".join(json.dumps(without_nan(row)) + "\n" for row in history))
        # A wide queue, and writing now and then: epochs may be short and disks slow. `metrics.jsonl` has all of it.
        self.board = SummaryWriter(
            str(folder / "tensorboard"), purge_step=len(history), max_queue=10_000, flush_secs=20
        )

    def epoch(self, row: dict[str, Any], seconds: float) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**without_nan(row), "seconds": round(seconds, 3)}) + "\n")
        for name, value in flat(row, "/").items():
            if isinstance(value, (int, float)) and name != "epoch":
                self.board.add_scalar(name, value, row["epoch"])

    def close(self) -> None:
        self.board.close()
