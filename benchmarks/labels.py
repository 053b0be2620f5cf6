"""Speed and size of the label store.

    python benchmarks/labels.py [folder with coco/coco_train_full.txt.gz]

The folder is `$RARETAG_DATA` or `../shared/data` unless given; without the COCO list (82,081 lines "file name,label
indices") random labels of that size are used, and the result says so. Prints a table and writes
benchmarks/results/labels.json. Times are the best of several runs in one process with one thread.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from raretag.labels.split import split
from raretag.labels.store import LabelStore

HERE = Path(__file__).parent


def best(action: Callable[[], Any], times: int = 5) -> float:
    """Seconds of the quickest run, which is the one that others disturbed least."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def read_list(path: Path) -> LabelStore:
    with gzip.open(path, "rt") as file:
        lines = [line.partition(",") for line in file]
    return LabelStore.from_lists(
        [[int(label) for label in labels.split()] for _, _, labels in lines],
        ids=[name for name, _, _ in lines],
        labels=80,
    )


def resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def large(items: int, labels: int, positives: int) -> LabelStore:
    columns = np.random.default_rng(0).integers(0, labels // positives, (items, positives), np.int32)
    columns += np.arange(positives, dtype=np.int32) * (labels // positives)  # no label twice in a row
    ends = np.arange(items + 1) * positives
    return LabelStore.from_sparse(
        sparse.csr_array((np.ones(columns.size, np.int8), columns.ravel(), ends), shape=(items, labels))
    )


def measure(data: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []

    def add(what: str, value: float, unit: str, goal: float, at_least: bool = False) -> None:
        met = value >= goal if at_least else value < goal
        results.append({"what": what, "measured": value, "unit": unit, "goal": goal, "at_least": at_least, "met": met})

    large(1000, 1000, 5)  # so that loading of libraries does not count as growth
    gc.collect()
    before = resident()
    store = large(1_000_000, 100_000, 5)
    gc.collect()
    growth = resident() - before
    add("1,000,000 x 100,000, 5 positives each: arrays", store.bytes / 1e6, "MB", 200)
    add("1,000,000 x 100,000, 5 positives each: growth of the process", growth / 1e6, "MB", 200)
    rows = torch.randint(0, len(store), (256,), generator=torch.Generator().manual_seed(0))
    add("take() of 256 rows of it", best(lambda: store.take(rows), 200) * 1e3, "ms", 1.0)

    path = data / "coco" / "coco_train_full.txt.gz"
    if path.exists():
        name = "COCO-2014 train, 82,081 x 80"
        add(f"{name}: read and counted", best(lambda: read_list(path).statistics(), 3), "s", 1.5)
        coco = read_list(path)
    else:
        name = "random labels, 82,081 x 80"
        coco = LabelStore.from_dense(np.random.default_rng(0).random((82_081, 80)) < 0.037)
    add(f"{name}: targets() of all", len(coco) / best(coco.targets), "rows/s", 1e6, at_least=True)
    batch = torch.randint(0, len(coco), (256,), generator=torch.Generator().manual_seed(0))
    speed = 256 / best(lambda: coco.targets(batch), 500)
    add(f"{name}: targets() of 256 random rows", speed, "rows/s", 1e6, at_least=True)

    random = np.random.default_rng(0)
    table = random.random((20_000, 100)) < np.geomspace(0.3, 0.0005, 100)
    full = LabelStore.from_dense(table)
    partial = LabelStore.from_dense(np.where(random.random(table.shape) < 0.3, table, -1))
    add("split of 20,000 x 100 into .8/.1/.1", best(lambda: split(full, (0.8, 0.1, 0.1)), 3), "s", 2.0)
    add("the same, 70 % unknown", best(lambda: split(partial, (0.8, 0.1, 0.1)), 3), "s", 2.0)
    return results


def main() -> None:
    torch.set_num_threads(1)
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RARETAG_DATA", HERE.parents[1] / "shared" / "data")
    results = measure(Path(given))
    print(f"{'':<62}{'measured':>14}{'goal':>16}  met")
    for r in results:
        goal = f"{'>=' if r['at_least'] else '<'} {r['goal']:,.10g}"
        print(f"{r['what']:<62}{r['measured']:>14,.3f}{goal:>16}  {'yes' if r['met'] else 'no'}  ({r['unit']})")
    versions = {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__}
    path = HERE / "results" / "labels.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"machine": platform.machine(), "versions": versions, "results": results}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
