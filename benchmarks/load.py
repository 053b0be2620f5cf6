"""CPU time and peak memory where there is very much, each command in a process of its own.

    OMP_NUM_THREADS=1 python benchmarks/load.py store      # a label store of ten million items
    OMP_NUM_THREADS=1 python benchmarks/load.py predict    # up to a million rows
    OMP_NUM_THREADS=1 python benchmarks/load.py suggest    # up to 100,000 items x 500 labels, two folds
    OMP_NUM_THREADS=1 python benchmarks/load.py train      # up to 50,000 labels: 2,000 items, an epoch by steps

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
SUGGESTED, SUGGESTED_LABELS = (10_000, 100_000), 500
TRAINED, TRAINED_ITEMS = (10_000, 50_000), 2_000
BY_STEPS = ["--method", "assume_negative", "--set", "train.epochs=1", "--set", "train.batch_size=64"]
COMMAND = """
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


def cost(folder: Path, *words: str) -> str:
    """CPU seconds and the peak of memory of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", COMMAND, *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{seconds:.1f} s, peak {done.stdout.split()[-1]} MB"


def predict() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table(folder / "train.csv", 2_000, tagged=True)
        cost(folder, "train", "--data", "train.csv", "--method", "logistic_regression", "--out", "run")
        for rows in ROWS:
            table(folder / "rows.csv", rows, tagged=False)
            print(f"{rows:,} rows: {cost(folder, 'predict', 'run', 'rows.csv', '--out', f'{rows}.csv')}", flush=True)


def svm(path: Path, items: int, labels: int) -> None:
    """Twenty features of each item; three labels, of which the features tell."""
    draw = np.random.default_rng(items)
    x = draw.normal(size=(items, FEATURES)).round(3)
    tags = (x[:, :POSITIVES] * 1e3).astype(int) % labels
    with path.open("w") as file:
        for row, own in zip(x.tolist(), tags.tolist(), strict=True):
            values = " ".join(f"{column + 1}:{value}" for column, value in enumerate(row))
            file.write(f"{','.join(map(str, sorted(set(own))))} {values}\n")


def suggest() -> None:
    for items in SUGGESTED:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            svm(folder / "my.svm", items, SUGGESTED_LABELS)
            print(f"train on {items:,}: {cost(folder, 'train', '--data', 'my.svm', '--out', 'run', *BY_STEPS)}")
            print(f"suggest of {items:,}: {cost(folder, 'suggest', 'run', '--folds', '2')}", flush=True)


def train() -> None:
    for labels in TRAINED:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            svm(folder / "my.svm", TRAINED_ITEMS, labels)
            print(
                f"{labels:,} labels: {cost(folder, 'train', '--data', 'my.svm', '--out', 'run', *BY_STEPS)}", flush=True
            )


if __name__ == "__main__":
    {"store": store, "predict": predict, "suggest": suggest, "train": train}[sys.argv[1]]()
