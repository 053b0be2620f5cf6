"""Very many labels from arrays to a run folder and predictions: CPU time, memory and disk over the number of labels.

    python benchmarks/many_labels.py [--sizes 10000 100000 1000000] [--items N] [--method NAME]

As many items as labels, unless `--items` says otherwise. An item has five labels, drawn so that the k-th label is
1 / (k + 10) as frequent, 15 columns that belong to its labels (each label has three of its own among 100,000), and 10
of chance. Each size runs in a process of its own: split, fit, cut, measure on 1,000 test items, write the folder, load
it, predict 1,000 items. Times are CPU seconds of that process, memory is its largest resident set. Result:
benchmarks/results/many_labels.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

RESULT = Path(__file__).parent / "results" / "many_labels.json"
COLUMNS, PER_ITEM, OWN, CHANCE, TEST, BLOCK = 100_000, 5, 3, 10, 1000, 50_000


def generated(size: int, items: int, seed: int = 0) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Features [N, D] and positives [N, C], C = size, made block by block: nothing is larger than the result."""
    random = np.random.default_rng(seed)
    weight = np.cumsum(1 / (np.arange(size) + 10.0))
    own = random.integers(0, COLUMNS, (size, OWN), dtype=np.int32)
    width = PER_ITEM * OWN + CHANCE
    labels = np.empty((items, PER_ITEM), np.int32)
    columns, values = np.empty((items, width), np.int32), np.empty((items, width), np.float32)
    for start in range(0, items, BLOCK):
        rows = slice(start, min(start + BLOCK, items))
        count = rows.stop - start
        drawn = np.searchsorted(weight, random.random((count, PER_ITEM)) * weight[-1]).clip(max=size - 1)
        labels[rows] = drawn
        columns[rows, : PER_ITEM * OWN] = own[drawn].reshape(count, -1)
        columns[rows, PER_ITEM * OWN :] = random.integers(0, COLUMNS, (count, CHANCE))
        values[rows] = random.random((count, width), dtype=np.float32) + 0.5
    ends = np.arange(items + 1, dtype=np.int32)
    x = sparse.csr_array((values.ravel(), columns.ravel(), ends * width), shape=(items, COLUMNS))
    y = sparse.csr_array((np.ones(labels.size, np.int8), labels.ravel(), ends * PER_ITEM), shape=(items, size))
    x.sum_duplicates()
    y.sum_duplicates()
    y.data[:] = 1
    return x, y


def measure(size: int, items: int, method: str) -> dict[str, Any]:
    """All of it, in this process."""
    import raretag
    from raretag.core.listener import Listener

    x, y = generated(size, items)
    parts = {"train": np.arange(items - TEST), "test": np.arange(items - TEST, items)}
    started = time.process_time()
    data = raretag.data.from_arrays(x, y, split=parts, validation=0.0)
    loaded = time.process_time()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        run = raretag.train(data, method=method, out=folder, listener=Listener())
        trained = time.process_time()
        found = raretag.load(folder).predict(x[:TEST], top=5)
        predicted = time.process_time()
        disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert len(found) == TEST
    assert run.metrics.top is not None
    return {
        "labels": size,
        "items": items,
        "method": method,
        "fits": 1 if run.record.fitted_on["model"]["items"] < items - TEST else 2,
        "split_seconds": round(loaded - started, 1),
        "train_seconds": round(trained - loaded, 1),
        "load_and_predict_seconds": round(predicted - trained, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "disk_mb": round(disk / 2**20, 1),
        "P@1": round(run.metrics.top["P@1"], 4),
        "PSP@5": round(run.metrics.top["PSP@5"], 4),
        "tail_recall@10": round(run.metrics.top["recall@10"]["tail"], 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--items", type=int, help="default: as many as labels")
    parser.add_argument("--method", default="")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    from raretag.engine.auto import RANKER

    method = given.method or RANKER
    if given.one:
        print(json.dumps(measure(given.one, given.items or given.one, method)))
        return
    for size in given.sizes:
        command = [sys.executable, __file__, "--one", str(size), "--method", method]
        command += ["--items", str(given.items)] if given.items else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        keep(json.loads(done.stdout.splitlines()[-1]))


def keep(row: dict[str, Any]) -> None:
    """In the file of results, in place of an older one of the same sizes and method."""
    print(row, flush=True)
    old = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    named = ("method", "labels", "items")
    rows = [one for one in old if any(one[name] != row[name] for name in named)]
    rows = sorted([*rows, row], key=lambda one: tuple(one[name] for name in named))
    RESULT.write_text(json.dumps({"about": (__doc__ or "").split("\n\n")[2], "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
