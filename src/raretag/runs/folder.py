"""The files of a run: what may happen to a folder that is there, a new one, the log of its epochs, unfinished fits.

Loads no torch, so that mistakes are found before anything else is.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from raretag.config.settings import Config, flat
from raretag.core.errors import UserError
from raretag.core.files import replacing, without_nan, write_text
from raretag.core.lazy import needed
from raretag.core.protocols import Logger
from raretag.runs import lock, manifest
from raretag.runs.manifest import CONFIG

FOLDS = "folds"
WORTH_KEEPING = 0.5  # seconds that a part of a fit took: less is computed again as quickly as it is written and read
MOST_KEPT = 2**32  # bytes of all parts of a fit
Resume = bool | Literal["auto"]  # auto: begin, or continue what is there


def is_first_process() -> bool:
    """Of several that train together, only the first one writes and prints."""
    return not any(int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def refuse_existing(folder: Path, *, resume: Resume, overwrite: bool) -> None:
    """Nothing is replaced unless the user says so, and then only a run."""
    if not folder.exists() or resume is True:
        return
    if not folder.is_dir():
        raise UserError(f"'{folder}' is a file; expected the name of a folder for the run")
    if not files_in(folder) or (resume == "auto" and (folder / CONFIG).is_file()):
        return
    if resume == "auto":
        raise UserError(f"'{folder}' is not a run folder (no {CONFIG} in it), so it is neither continued nor replaced")
    if not overwrite:
        raise UserError(
            f"the run folder '{folder}' exists; continue it with --resume, replace it with --overwrite, "
            "or name another with --out"
        )
    if not (folder / CONFIG).exists():
        raise UserError(f"'{folder}' is not a run folder (no config.yaml in it), so --overwrite leaves it alone")
    for listed in (folder / "suggestions", folder / "review"):
        if listed.is_dir() and any(listed.iterdir()):
            raise UserError(
                f"'{listed}' may hold answers, so --overwrite leaves it alone: move it, or name another --out"
            )


def is_finished(folder: Path) -> bool:
    """Whether the last file of a run is written, so that there is nothing to resume."""
    return all((folder / name).is_file() for name in ("record.json", "card.json", "evidence.safetensors"))


def files_in(folder: Path) -> list[Path]:
    """Without the lock of who is looking."""
    return [one for one in folder.iterdir() if one.name != lock.FILE]


def start_folder(folder: Path, config: Config, content: manifest.Content) -> None:
    """An empty folder with the configuration, and with what the data holds."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in files_in(folder):
            shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()
    except OSError as error:
        raise UserError(f"the run folder '{folder}' cannot be made: {error.strerror}") from None
    write_text(folder / CONFIG, config.to_yaml())
    manifest.write(folder, content, manifest.checksums(folder, [CONFIG]))


def check_data(folder: Path, content: manifest.Content, message: Callable[[str], None], *, insists: bool) -> None:
    """Before a run goes on: its data is what it was, or the user says that it may be other."""
    from raretag.data.fingerprint import changed, refuse_changed

    found = manifest.read(folder)
    if found is None:
        message(f"{folder} is of an older version and does not say what its data was, so that was not compared")
        return
    if not insists:
        refuse_changed(found["data"], content, folder)
    elif changed(found["data"], content):
        message(f"continued although the data changed: other {' and '.join(changed(found['data'], content))}")
    if manifest.edited(folder, [CONFIG]):
        message(f"{CONFIG} was edited since the run began; the edited settings are used")


class Log:
    """One line of JSON for each epoch, and the same numbers for all loggers.

    Starts from the epochs that a checkpoint already has, so that a resumed run leaves no line twice.
    """

    def __init__(self, folder: Path | None, config: Config, loggers: Sequence[Logger]) -> None:
        self.folder, self.config, self.loggers = folder, config, loggers
        self.path = None if folder is None else folder / "metrics.jsonl"

    def begin(self, history: list[dict[str, Any]]) -> None:
        if self.path is not None:
            write_text(self.path, "".join(json.dumps(without_nan(row)) + "\n" for row in history))
        name = f"{self.config.data.name}-{self.config.method.name}-{self.config.seed}"
        for logger in self.loggers:
            logger.begin(
                name if self.folder is None else self.folder.name,
                self.config.model_dump(mode="json"),
                self.folder,
                len(history),
            )

    def epoch(self, row: dict[str, Any], seconds: float) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**without_nan(row), "seconds": round(seconds, 3)}) + "\n")
        for logger in self.loggers:
            logger.epoch(row["epoch"], numbers_in({name: value for name, value in row.items() if name != "epoch"}))

    def end(self, final: dict[str, Any]) -> None:
        """With the numbers of the finished run."""
        for logger in self.loggers:
            logger.end({f"final/{name}": value for name, value in numbers_in(final).items()})


def numbers_in(tree: dict[str, Any]) -> dict[str, float]:
    """The numbers of nested dictionaries, by paths such as validation/mAP/total."""
    return {name: float(value) for name, value in flat(tree, "/").items() if isinstance(value, (int, float))}


class TensorBoard:
    """Events in the folder `tensorboard` of the run."""

    def __init__(self) -> None:
        needed("tensorboard", "tensorboard", "--logger tensorboard")

    def begin(self, name: str, config: dict[str, Any], folder: Path | None, epochs_done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        if folder is None:
            raise UserError("tensorboard writes into the run's folder, but this run has none: name one with out=...")
        # A wide queue, and writing now and then: epochs may be short and disks slow. `metrics.jsonl` has all of it.
        where = str(folder / "tensorboard")
        self.board = SummaryWriter(where, purge_step=epochs_done, max_queue=10_000, flush_secs=20)

    def epoch(self, number: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self.board.add_scalar(name, value, number)

    def end(self, numbers: dict[str, float]) -> None:
        self.board.close()


class FinishedFolds:
    """What a solver has fitted so far (core/solver.py), until the run is written: a file for each part."""

    def __init__(
        self, folder: Path, read: Callable[[Path], dict[str, Any] | None], write: Callable[[Path, dict[str, Any]], None]
    ) -> None:
        self.folder, self.read, self.write = folder / FOLDS, read, write
        self.size = sum(path.stat().st_size for path in self.folder.glob("*")) if self.folder.is_dir() else 0

    def find(self, name: str) -> Any:
        path = self.folder / f"{name}.ckpt"
        found = self.read(path) if path.exists() else None
        return None if found is None else found["part"]

    def keep(self, name: str, value: Any, seconds: float) -> None:
        if seconds < WORTH_KEEPING or self.size > MOST_KEPT:
            return
        self.folder.mkdir(exist_ok=True)
        with replacing(self.folder / f"{name}.ckpt") as new:
            self.write(new, {"part": value})
            self.size += new.stat().st_size

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
