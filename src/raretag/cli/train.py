"""`raretag train`: settings together, progress, and the table at the end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from raretag.cli.screen import screen
from raretag.cli.table import results
from raretag.config.settings import READERS, Config, checked, compose, flat, read
from raretag.core import SLOTS
from raretag.core import registry as registry
from raretag.core.errors import UserError
from raretag.runs.folder import is_finished, refuse_existing


def train_run(
    run: Path | None,
    data: str | None,
    method: str | None,
    file: Path | None,
    changes: list[str],
    seed: int | None,
    devices: int | None,
    out: Path | None,
    *,
    resume: bool,
    overwrite: bool,
) -> None:
    if resume and overwrite:
        raise UserError("--resume continues a run and --overwrite replaces it: give one of them")
    if run is not None and not resume:
        hint = f"data comes after --data: --data {run}" if run.is_file() else "name a new one with --out"
        raise UserError(f"'{run}' was given, but a run folder is an argument of --resume only; {hint}")
    told = compose(file, changes, data, method__name=method, seed=seed, train__devices=devices)
    folder = run or out or Path("runs") / f"{called(told)}-{told.method.name}-{told.seed}"
    if resume:
        given = any(value is not None for value in (data, method, file, seed, devices)) or bool(changes)
        told = stored(folder, told if given else None)
    check_names(told)
    refuse_existing(folder, resume=resume, overwrite=overwrite)  # before torch is loaded, and again by the engine
    if resume and is_finished(folder):
        if not elsewhere():
            results(screen(), {row_name(told): json.loads((folder / "record.json").read_text(encoding="utf-8"))})
            screen().print(f"{folder} is finished, so nothing was done; `raretag report {folder}` explains it")
        return
    method = "" if told.method.name == "auto" else f"{told.method.name} "
    screen(error=True).print(f"training {method}on {called(told)} into {folder}")

    from raretag.engine.run import run as train  # torch is loaded here

    if elsewhere():
        train(told, folder, resume=resume, overwrite=overwrite, say=lambda line: None)
        return
    try:
        record = watched(told, folder, resume=resume, overwrite=overwrite, train=train)
    except KeyboardInterrupt:
        screen(error=True).print(f"stopped; `raretag train --resume {folder}` goes on")
        raise SystemExit(130) from None
    results(screen(), {row_name(stored(folder, None)): record})  # with the method that `auto` stood for
    screen().print(f"in {folder}; `raretag report {folder}` explains it")


def elsewhere() -> bool:
    """Whether another of several processes speaks."""
    return any(int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def row_name(config: Config) -> str:
    """The method, and the methods it is made of."""
    inner = [
        str(value["name"] if isinstance(value, dict) and "name" in value else value)
        for key, value in config.method.options.items()
        if key in ("base", *SLOTS)
    ]
    return config.method.name + (f" ({', '.join(inner)})" if inner else "")


def called(config: Config) -> str:
    """The data in one word."""
    file = file_of(config)
    return config.data.name if file is None else file.stem


def file_of(config: Config) -> Path | None:
    """The file that the data is read from, if it is the user's own."""
    option = dict(READERS.values()).get(config.data.name)
    return Path(str(config.data.options[option])) if option in config.data.options else None


def stored(folder: Path, told: Config | None) -> Config:
    """The settings of the run to be resumed; other settings on the command line are a mistake."""
    if not (folder / "config.yaml").is_file():
        raise UserError(f"'{folder}' is not a run folder (no config.yaml in it), so there is nothing to resume")
    config = checked(read(folder / "config.yaml"))
    if told is None:
        return config
    before, after = flat(config.model_dump()), flat(told.model_dump(exclude_unset=True))
    for key, value in after.items():
        if value != "auto" and before.get(key) != value:
            raise UserError(
                f"{key} is {value!r} here but {before.get(key)!r} in '{folder}': a resumed run keeps its settings; "
                "use another --out for new ones"
            )
    return config


def check_names(config: Config) -> None:
    """Misspelt names are found before torch is loaded."""
    name, file = config.data.name, file_of(config)
    if name not in registry.names("data") and any(mark in name for mark in "./\\"):
        state = f"is not one of {', '.join(READERS)}" if Path(name).exists() else "does not exist"
        raise UserError(f"the data file '{name}' {state}; data sets by name: `raretag list data`")
    roots = [Path(), *(Path(root) for root in (config.data.root, os.environ.get("RARETAG_DATA")) if root)]
    if file is not None and not any((root / file.expanduser()).exists() for root in roots):
        raise UserError(f"the data file '{file}' does not exist")
    named = [("data", config.data.name), ("methods", config.method.name), ("models", config.model.name)]
    named += [("models", config.encoder.name), ("sampling", config.sampler.name), ("models.heads", config.head.name)]
    for room, name in named:
        if name not in ("auto", "none") and name not in registry.names(room):
            raise UserError(f"there is no '{name}' in {room}; {registry.nearest(name, registry.names(room))}")


def watched(config: Config, folder: Path, *, resume: bool, overwrite: bool, train: Any) -> dict[str, Any]:
    """The run with a progress bar on standard error."""
    columns = (
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        BarColumn(12),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=screen(error=True)) as progress:
        name = f"{config.method.name} epoch".removeprefix("auto ")
        task = progress.add_task(name, total=config.train.epochs, note="", visible=False)  # until a step is done

        def watch(step: Any, row: dict[str, Any] | None) -> None:
            if row is None:
                progress.update(task, visible=True)
                return
            shown = row["validation"]["mAP"]["total"]
            note = f"loss {row['loss']:.4f}" + ("" if shown is None else f", mAP {100 * shown:.1f}")
            progress.update(task, completed=step.epoch + 1, note=note, visible=True)

        def solving(share: float) -> None:
            progress.update(task, description="solving", total=1, completed=share, visible=True)

        def say(line: str) -> None:
            progress.console.print(line)

        record: dict[str, Any] = train(
            config, folder, resume=resume, overwrite=overwrite, say=say, watch=watch, solving=solving
        )
        # A method may have been chosen, and one that is solved or stops early needs fewer epochs than were allowed.
        done = progress.tasks[task].completed or None
        progress.update(task, description=f"{record['method']['name']} epoch", total=done)
        return record
