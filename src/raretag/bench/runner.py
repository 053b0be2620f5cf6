"""Runs the cells of a plan in a few processes, each of which runs many. It may be stopped at any time: finished cells
stay, others resume.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from raretag.bench.plan import Cell
from raretag.core.errors import UserError


def is_done(folder: Path) -> bool:
    return (folder / "record.json").is_file()


@dataclass(frozen=True)
class Outcome:
    """How a cell ended, as the worker reports it."""

    error: str = ""  # '': it ended well
    data_absent: bool = False  # its data is not on this disk
    seconds: float | None = None  # of a cell that was only timed: how long its steps would take


class Worker:
    """A process that runs one cell after another; if it dies, the next cell gets a new one."""

    def __init__(self, threads: int) -> None:
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.process: subprocess.Popen[str] | None = None

    def run(self, cell: Cell, folder: Path, like: Path | None = None, *, alone: bool = False) -> tuple[float, Outcome]:
        """`like`: the folder of a cell that trains the same. Returns the seconds it took and how it ended.

        `alone`: in a process that runs nothing else, so that what it takes is its own.
        """
        task = {"folder": str(folder), "like": str(like or ""), "alone": alone}
        seconds, outcome = self.do(cell, task)
        if alone:
            self.close()
        return seconds, outcome

    def do(self, cell: Cell, task: dict[str, object]) -> tuple[float, Outcome]:
        """One task about a cell, as the worker understands it."""
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
        try:
            self.process.stdin.write(json.dumps({**task, "changes": cell.changes, "seed": cell.seed}) + "\n")
            self.process.stdin.flush()
            outcome = Outcome(**json.loads(self.process.stdout.readline()))
        except (OSError, json.JSONDecodeError):
            outcome = Outcome(f"its process ended with code {self.process.wait()}; a code of -9 means it was killed")
            self.close()
        return time.monotonic() - started, outcome

    def end(self) -> None:
        """Kill what it is at; who waits for it hears that it ended."""
        if self.process is not None:
            self.process.kill()

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
        raise UserError(f"another `raretag bench` is running in '{runs}'; wait for it or give another --out") from None
    return lock
