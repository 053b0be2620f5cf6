"""CPU time and peak memory where there is very much: a label store of ten million items, predictions of a million rows.

    OMP_NUM_THREADS=1 python benchmarks/load.py store
    OMP_NUM_THREADS=1 python benchmarks/load.py predict

Prints lines; docs/reliability.md has them.
"""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from raretag.data.fingerprint import label_hashes
from raretag.labels.store import LabelStore

ITEMS, LABELS, POSITIVES = 10_000_000, 1_000, 3
ROWS, FEATURES, TAGS = (10_000, 100_000, 1_000_000), 20, "abcdefgh"
PREDICT = """
import atexit, resource, sys
from raretag.cli.main import main
atexit.register(lambda: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024))
sys.argv[0] = "raretag"
main()
"""


def peak() -> int:
    """MB of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def store() -> None:
    before, draw = peak(), np.random.default_rng(0)
    third = LABELS // POSITIVES
    indices = draw.integers(0, third, size=(ITEMS, POSITIVES), dtype=np.int32) + third * np.arange(POSITIVES)
    ends = np.arange(0, POSITIVES * ITEMS + 1, POSITIVES)
    ones = np.ones(POSITIVES * ITEMS, np.int8)
    matrix = sparse.csr_array((ones, indices.astype(np.int32).ravel(), ends), shape=(ITEMS, LABELS))
    started = time.process_time()
    made = LabelStore.from_sparse(matrix)
    print(f"made in {time.process_time() - started:.1f} s: {made.bytes / 2**20:.0f} MB, peak {peak() - before} MB")
    batches, started = draw.integers(0, ITEMS, size=(1_000, 256)), time.process_time()
    for rows in batches:
        made.targets(rows)
    print(f"{batches.size / (time.process_time() - started):,.0f} random rows a second, in batches of 256")
    works = {"counted": lambda: made.statistics(cooccurrence=False), "hashed": lambda: label_hashes(made)}
    for name, work in works.items():
        started = time.process_time()
        work()
        print(f"{name} in {time.process_time() - started:.1f} s, peak {peak() - before} MB")


def table(path: Path, rows: int, *, tagged: bool) -> None:
    draw = np.random.default_rng(rows)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{number}" for number in range(FEATURES)), *(["tags"] if tagged else [])])
        for start in range(0, rows, 10_000):
            for row in draw.normal(size=(min(10_000, rows - start), FEATURES)).round(4).tolist():
                tags = ";".join(tag for tag, value in zip(TAGS, row, strict=False) if value > 1)
                writer.writerow([*row, *([tags] if tagged else [])])


def predict() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table(folder / "train.csv", 2_000, tagged=True)
        words = ["train", "--data", "train.csv", "--method", "logistic_regression", "--out", "run"]
        subprocess.run([sys.executable, "-m", "raretag", *words], cwd=folder, check=True, capture_output=True)
        for rows in ROWS:
            table(folder / "rows.csv", rows, tagged=False)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            words = ["predict", "run", "rows.csv", "--out", f"{rows}.csv"]
            done = subprocess.run(
                [sys.executable, "-c", PREDICT, *words], cwd=folder, check=True, capture_output=True, text=True
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{rows:,} rows: {seconds:.1f} s, peak {done.stdout.split()[-1]} MB", flush=True)


if __name__ == "__main__":
    {"store": store, "predict": predict}[sys.argv[1]]()
