"""Runs cells one after another in one process, so that torch and the data are loaded once and not once per cell.

Tasks come in and outcomes go out as lines of JSON. Cells that follow each other mostly share their data.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from raretag.config.settings import Config, Data, checked, compose, read
from raretag.core import registry
from raretag.core.errors import DataAbsentError, UserError
from raretag.core.listener import SILENT
from raretag.core.solver import Solver, solver_named
from raretag.data.dataset import DataSet
from raretag.data.sources import load
from raretag.engine.batches import build_fabric
from raretag.engine.fit import fit
from raretag.engine.prepare import prepare
from raretag.engine.run import run


@lru_cache(maxsize=1)
def loaded(settings: str, seed: int) -> DataSet:
    return load(Data.model_validate_json(settings), seed)


def take_model(trained: Path, folder: Path, task: dict[str, Any]) -> None:
    """For a cell that reads out the model of another one in its own way: begin where that one ended, if it has."""
    ended = all((trained / name).is_file() for name in ("record.json", "last.ckpt"))  # a restored one has no model
    if ended and not folder.exists():
        settings = read(trained / "config.yaml") | {"method": compose(None, task["changes"]).method.model_dump()}
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(checked(settings).to_yaml(), encoding="utf-8")
        for name in ("last.ckpt", "metrics.jsonl"):
            shutil.copy(trained / name, folder / name)


def import_solver(config: Config) -> None:
    """Make solver and fabric once for nothing: what their libraries take to be imported is no cost of a run."""
    _ = build_fabric(config.train).device  # a fabric of one process is made when something of it is asked for
    name = config.method.name
    if solver_named(name) is not None:
        registry.build("solvers", name, config.method.options, kind=Solver, seed=config.seed, effort=config.effort)
        import_module("sklearn.tree")  # a forest imports it where it grows; other libraries' rows did so above


def plain(task: dict[str, Any]) -> Config:
    """Tables repeat what papers did, and no paper trained again on its validation items: a row must ask for it."""
    return compose(None, ["train.refit=false", *task["changes"]], seed=task["seed"])


def seconds_of_steps(config: Config) -> float | None:
    """How long all steps of a run would take, by its second one; None for a solver, which makes none."""
    prepared = prepare(config, build_fabric(config.train), data=loaded(config.data.model_dump_json(), config.seed))
    if prepared.training is None:
        return None
    steps = fit(prepared.training)
    share = next(steps).share  # the first step also warms up
    started = time.perf_counter()
    next(steps, None)
    return (time.perf_counter() - started) / share


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    """Run a cell, or only time it; the fields of the runner's `Outcome`."""
    try:
        if task.get("only") == "time":
            return {"seconds": seconds_of_steps(plain(task))}
        folder = Path(task["folder"])
        if task["like"]:
            take_model(Path(task["like"]), folder, task)
        resume = any((folder / name).exists() for name in ("last.ckpt", "previous.ckpt"))
        config = checked(read(folder / "config.yaml")) if resume else plain(task)
        data = None  # a cell that is measured alone loads its data itself, as a user's run does; the others share it
        if task.get("alone"):
            import_solver(config)
        else:
            data = loaded(config.data.model_dump_json(), config.seed)
        run(config, folder, data=data, resume=resume, overwrite=not resume, listener=SILENT)
    except UserError as error:
        return {"error": str(error), "data_absent": isinstance(error, DataAbsentError)}
    except Exception as error:  # a cell that breaks must not take the others with it
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return {}


def exit_with_runner() -> None:
    """A worker whose runner was killed must not go on writing where a new runner may be at work."""
    runner = os.getppid()
    while os.getppid() == runner:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    threading.Thread(target=exit_with_runner, daemon=True).start()
    outcomes, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not look like an outcome
    for line in sys.stdin:
        outcomes.write(json.dumps(run_task(json.loads(line))) + "\n")
        outcomes.flush()


if __name__ == "__main__":
    main()
