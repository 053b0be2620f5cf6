"""Runs the cells of a plan in processes that live longer than one. Stop it at any time: finished cells stay, others
resume.
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

CALIBRATION_EPOCHS = 3


def is_done(folder: Path) -> bool:
    return (folder / "record.json").is_file()


@dataclass(frozen=True)
class Answer:
    complaint: str = ""  # '': the cell ended well
    absent: bool = False  # its data is not on this disk


class Worker:
    """A process that runs one cell after another; if it dies, the next cell gets a new one."""

    def __init__(self, threads: int) -> None:
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.process: subprocess.Popen[str] | None = None

    def run(self, cell: Cell, folder: Path, like: Path | None = None) -> tuple[float, Answer]:
        """`like`: the folder of a cell that trains the same. Returns the seconds and what came back."""
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
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            answer = Answer(**json.loads(self.process.stdout.readline()))
        except (OSError, json.JSONDecodeError):
            answer = Answer(f"its process ended with code {self.process.wait()}; a code of -9 means it was killed")
            self.close()
        return time.monotonic() - started, answer

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def run(
    cells: Iterable[Cell], runs: Path, *, jobs: int, threads: int, tell: Callable[[Cell, float, Answer], None]
) -> dict[str, Answer]:
    """Run what is not done, `jobs` at a time; `tell` hears of each that ends. Returns what failed, by cell or data."""
    cells = list(cells)
    models = {(cell.key, cell.method.label): runs / cell.name for cell in cells}
    waiting = [cell for cell in cells if not is_done(runs / cell.name)]
    lock = alone(runs)
    workers = [Worker(threads) for _ in range(jobs)]
    free: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)
    failures: dict[str, Answer] = {}

    def work(cell: Cell) -> tuple[Cell, float, Answer]:
        if cell.data.label in failures:  # its data is absent: one look is enough
            return cell, 0.0, failures[cell.data.label]
        worker = free.get()
        try:
            like = models.get((cell.key, cell.method.trained_as or ""))
            return cell, *worker.run(cell, runs / cell.name, like)
        finally:
            free.put(worker)

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(work, cell) for cell in waiting]):
            cell, seconds, answer = future.result()
            if answer.complaint:
                failures[cell.data.label if answer.absent else cell.name] = answer
            tell(cell, seconds, answer)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.close()
        lock.close()
    return failures


def alone(runs: Path) -> IO[str]:
    """Two runners in one folder would train the same cells into the same files."""
    runs.mkdir(parents=True, exist_ok=True)
    lock = (runs / ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise UserError(f"another `raretag bench` is at work in '{runs}'; wait for it or give another --out") from None
    return lock


def calibrate(cell: Cell, runs: Path, worker: Worker) -> tuple[float, Answer]:
    """Seconds that a cell will take, from a run of a few epochs: the last of them stand for those that are left out."""
    asked = next((int(c.split("=")[1]) for c in reversed(cell.changes) if c.startswith("train.epochs=")), 20)
    changes = (*cell.changes, f"train.epochs={min(asked, CALIBRATION_EPOCHS)}")
    seconds, answer = worker.run(Cell(cell.data, cell.setting, cell.method, cell.seed, changes), runs)
    if answer.complaint:
        return 0.0, answer
    lines = (runs / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    epochs = [json.loads(line)["seconds"] for line in lines][
        1:
    ]  # the first also warms up; a method that solves has no more
    return seconds + (sum(epochs) / len(epochs) * (asked - len(lines)) if epochs else 0.0), answer
