"""Runs the cells of a plan, each as a program of its own. Stop it at any time: finished cells stay, others resume."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from raretag.bench.plan import Cell

CALIBRATION_EPOCHS = 2


def is_done(folder: Path) -> bool:
    return (folder / "record.json").is_file()


def command(cell: Cell, folder: Path) -> list[str]:
    start = [sys.executable, "-m", "raretag", "train"]
    if any((folder / name).exists() for name in ("last.ckpt", "previous.ckpt")):
        return [*start, "--resume", str(folder)]
    words = [*start, "--seed", str(cell.seed), "--out", str(folder), "--overwrite"]
    for change in cell.changes:
        words += ["--set", change]
    return words


def run_cell(cell: Cell, runs: Path, threads: int) -> tuple[Cell, float, str]:
    """The cell, its seconds, and what it complained about ('' if it ended well)."""
    folder = runs / cell.name
    started = time.monotonic()
    done = subprocess.run(
        command(cell, folder),
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
    )
    complaint = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
    return cell, time.monotonic() - started, complaint


def run(
    cells: Iterable[Cell], runs: Path, *, jobs: int, threads: int, tell: Callable[[Cell, float, str], None]
) -> list[str]:
    """Run what is not done, `jobs` at a time; `tell` hears of each that ends. Returns the complaints."""
    waiting = [cell for cell in cells if not is_done(runs / cell.name)]
    complaints = []
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(run_cell, cell, runs, threads) for cell in waiting]):
            cell, seconds, complaint = future.result()
            if complaint:
                complaints.append(f"{cell.name}: {complaint}")
            tell(cell, seconds, complaint)
    return complaints


def calibrate(cell: Cell, runs: Path, threads: int) -> float:
    """Seconds that a cell will take, from runs of a few epochs; loading counts once, epochs as often as asked."""
    asked = next((int(c.split("=")[1]) for c in reversed(cell.changes) if c.startswith("train.epochs=")), 20)
    spent = []
    for epochs in (1, 1 + CALIBRATION_EPOCHS):
        short = Cell(cell.data, cell.setting, cell.method, cell.seed, (*cell.changes, f"train.epochs={epochs}"))
        folder = runs / f".calibration-{epochs}"
        _, seconds, complaint = run_cell(short, folder, threads)
        if complaint:
            return float("nan")
        spent.append(seconds)
    each = max(spent[1] - spent[0], 0.0) / CALIBRATION_EPOCHS
    return spent[0] + each * (asked - 1)
