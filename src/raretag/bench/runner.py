"""Runs the cells of a plan in a few processes, each of which runs many. It may be stopped at any time: finished cells
stay, others resume.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from raretag.bench.plan import Cell
from raretag.core.errors import UserError

CALIBRATION_EPOCHS = 3


def is_done(folder: Path) -> bool:
    return (folder / "record.json").is_file()


@dataclass(frozen=True)
class Outcome:
    """How a cell ended, as the worker reports it."""

    error: str = ""  # '': it ended well
    data_absent: bool = False  # its data is not on this disk


class Worker:
    """A process that runs one cell after another; if it dies, the next cell gets a new one."""

    def __init__(self, threads: int) -> None:
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.process: subprocess.Popen[str] | None = None

    def run(self, cell: Cell, folder: Path, like: Path | None = None, *, alone: bool = False) -> tuple[float, Outcome]:
        """`like`: the folder of a cell that trains the same. Returns the seconds it took and how it ended.

        `alone`: in a process that runs nothing else, so that what it takes is its own.
        """
        started = time.monotonic()
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "raretag.bench.worker"],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.process.stdin
        assert self.process.stdout
        task = {"folder": str(folder), "like": str(like or ""), "changes": cell.changes, "seed": cell.seed}
        task["alone"] = alone
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            outcome = Outcome(**json.loads(self.process.stdout.readline()))
        except (OSError, json.JSONDecodeError):
            outcome = Outcome(f"its process ended with code {self.process.wait()}; a code of -9 means it was killed")
            self.close()
        if alone:
            self.close()
        return time.monotonic() - started, outcome

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def run(
    cells: Iterable[Cell],
    runs: Path,
    *,
    jobs: int,
    threads: int,
    on_end: Callable[[Cell, float, Outcome], None],
    alone: bool = False,
) -> dict[str, Outcome]:
    """Run what is not done, `jobs` at a time; `on_end` is called after each. Returns what failed, by cell or data.

    `alone`: every cell in a process of its own, so that its CPU seconds and its peak memory are its own.
    """
    cells = list(cells)
    models = {(cell.key, cell.method.label): runs / cell.name for cell in cells}
    waiting = [cell for cell in cells if not is_done(runs / cell.name)]
    lock = lock_folder(runs)
    workers = [Worker(threads) for _ in range(jobs)]
    free: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)
    failures: dict[str, Outcome] = {}

    def work(cell: Cell) -> tuple[Cell, float, Outcome]:
        if cell.data.label in failures:  # its data is absent: one try is enough
            return cell, 0.0, failures[cell.data.label]
        worker = free.get()
        try:
            like = models.get((cell.key, cell.method.trained_as or ""))
            return cell, *worker.run(cell, runs / cell.name, like, alone=alone)
        finally:
            free.put(worker)

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(work, cell) for cell in waiting]):
            cell, seconds, outcome = future.result()
            if outcome.error:
                failures[cell.data.label if outcome.data_absent else cell.name] = outcome
            on_end(cell, seconds, outcome)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.close()
        lock.close()
    return failures


def lock_folder(runs: Path) -> IO[str]:
    """Two runners in one folder would train the same cells into the same files."""
    runs.mkdir(parents=True, exist_ok=True)
    lock = (runs / ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise UserError(f"another `raretag bench` is at work in '{runs}'; wait for it or give another --out") from None
    return lock


def calibrate(cell: Cell, runs: Path, worker: Worker) -> tuple[float, Outcome]:
    """Seconds that a cell will take, from a run of a few epochs: the last of them stand for those that are left out."""
    asked = next((int(c.split("=")[1]) for c in reversed(cell.changes) if c.startswith("train.epochs=")), 20)
    changes = (*cell.changes, f"train.epochs={min(asked, CALIBRATION_EPOCHS)}")
    seconds, outcome = worker.run(Cell(cell.data, cell.setting, cell.method, cell.seed, changes), runs)
    if outcome.error:
        return 0.0, outcome
    lines = (runs / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = [json.loads(line)["seconds"] for line in lines[1:]]  # the first also warms up; a solver has no more
    return seconds + (sum(epochs) / len(epochs) * (asked - len(lines)) if epochs else 0.0), outcome


@dataclass
class Estimate:
    """How long cells will take, in seconds by `method on data`, and what cannot run, with the reason."""

    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # data that is absent, and methods that do not run on theirs

    def total(self, cells: Iterable[Cell]) -> float:
        return sum(self.seconds.get(kind_of(cell), 0.0) for cell in cells)

    def cannot_run(self, cells: Iterable[Cell]) -> int:
        return sum(kind_of(cell) not in self.seconds for cell in cells)


def kind_of(cell: Cell) -> str:
    """Cells of one kind take about the same time."""
    return f"{cell.method.label} on {cell.data.label}"


def estimate(cells: Iterable[Cell], threads: int, on_end: Callable[[str], None] = lambda line: None) -> Estimate:
    """A short run of each method on each data set; `on_end` gets a line about each of them."""
    found = Estimate()
    worker = Worker(threads)
    with tempfile.TemporaryDirectory() as folder:
        for cell in cells:
            kind = kind_of(cell)
            if kind in found.seconds or {kind, cell.data.label} & set(found.failed):
                continue
            place = Path(folder) / str(len(found.seconds) + len(found.failed))
            seconds, outcome = calibrate(cell, place, worker)
            if outcome.error:
                subject = cell.data.label if outcome.data_absent else kind
                found.failed[subject] = outcome.error
                on_end(f"{subject}: {outcome.error}")
            else:
                found.seconds[kind] = seconds
                on_end(f"{kind}: about {seconds:.0f} s per run")
    worker.close()
    return found
