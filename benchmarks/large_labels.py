"""One step with a million labels: its memory, and its time beside the matrix products that it cannot do without.

    python benchmarks/large_labels.py [--labels 1000000] [--rounds 3] [--threads 1]

256 features, 256 items with five positive labels each, the rest unknown. Times are CPU seconds of this process; each
step stands between two runs of the three products (logits, gradient of the features, gradient of the weights), made in
the same blocks (quicker than at once), and the median ratio to them is taken. Memory is the growth of the resident
set over what it is with weights in place, less the gradients. Result: benchmarks/results/large_labels.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from raretag.core.catalogue import build_method
from raretag.core.context import Context
from raretag.core.method import Method
from raretag.labels.store import LabelStore
from raretag.streamed.head import StreamedHead
from raretag.streamed.row_adagrad import RowAdagrad
from raretag.streamed.targets import ListedTargets, listed_targets

RESULT = Path(__file__).parent / "results" / "large_labels.json"
FEATURES, BATCH, POSITIVES, ITEMS = 256, 256, 5, 256
GIB = 2**30


def labels_of(count: int) -> LabelStore:
    step = count // POSITIVES  # no label twice in a row
    columns = np.random.default_rng(0).integers(0, step, (ITEMS, POSITIVES)) + np.arange(POSITIVES) * step
    ends = np.arange(ITEMS + 1) * POSITIVES
    positives = csr_array((np.ones(columns.size, np.int8), columns.ravel(), ends), shape=(ITEMS, count))
    return LabelStore.from_sparse(positives, absent="unknown")


def products(x: Tensor, weight: Tensor, block: int) -> Callable[[], None]:
    gradient, logits = torch.zeros_like(weight), torch.empty(len(x), block)
    of_features = torch.zeros_like(x)

    def run() -> None:
        for start in range(0, len(weight), block):
            some = weight[start : start + block]
            z = torch.mm(x, some.T, out=logits if len(some) == block else None)
            of_features.addmm_(z, some)
            torch.mm(z.T, x, out=gradient[start : start + block])

    return run


def clock(action: Callable[[], Any]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def ratios(action: Callable[[], Any], base: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The median ratio to the mean of the runs of `base` before and after, and the median seconds."""
    found, seconds = [], []
    before = clock(base)
    for _ in range(rounds):
        mine = clock(action)
        after = clock(base)
        found.append(2.0 * mine / (before + after))
        seconds.append(mine)
        before = after
    return median(found), median(seconds)


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def growth(action: Callable[[], Any]) -> int:
    """The highest resident memory during the action, above that before it."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    before = resident("VmRSS")
    action()
    return resident("VmHWM") - before


class Bench:
    def __init__(self, labels: int, rounds: int) -> None:
        torch.manual_seed(0)
        self.rounds, self.labels = rounds, labels
        self.store = labels_of(labels)
        self.rows = torch.arange(BATCH)
        self.context = Context(index=self.rows, epoch=1, epochs=10)
        self.targets: ListedTargets = listed_targets(self.store, self.rows)
        self.x = torch.randn(BATCH, FEATURES).requires_grad_()
        self.head = StreamedHead(FEATURES, labels, sparse=True)
        self.results: list[dict[str, Any]] = []

    def method(self, name: str, **options: Any) -> Method:
        return build_method(name, self.store.statistics(cooccurrence=False), items=ITEMS, **options)

    def step(self, method: Method) -> Callable[[], None]:
        def run() -> None:
            self.head.zero_grad(set_to_none=True)
            self.head.loss(method, self.x, self.targets, self.context).backward()

        return run

    def memory(self, what: str, action: Callable[[], Any], goal: float | None) -> None:
        self.head.zero_grad(set_to_none=True)
        above = growth(action)
        if (found := self.head.weights[0].grad) is not None:
            above -= sum(
                p.grad.numel() * 4 for p in self.head.parameters() if p.grad is not None and not found.is_sparse
            )
        self.add(f"{what}: memory", above / GIB, "GiB", goal)
        self.head.zero_grad(set_to_none=True)

    def time(self, what: str, action: Callable[[], Any], goal: float | None) -> None:
        base = products(self.x.detach(), self.head.weights[0].detach(), 2**20 // BATCH)
        ratio, seconds = ratios(action, base, self.rounds)
        self.head.zero_grad(set_to_none=True)
        self.add(f"{what}: CPU seconds", seconds, "s", None)
        self.add(f"{what}: time / three products", ratio, "x", goal)

    def add(self, what: str, value: float, unit: str, goal: float | None) -> None:
        met = None if goal is None else value <= goal
        self.results.append({"what": what, "measured": value, "unit": unit, "goal": goal, "met": met})
        said = "" if goal is None else f"   goal <= {goal:g}: {'met' if met else 'missed'}"
        print(f"{what:<66}{value:>10.3f} {unit:<4}{said}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--labels", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=1)
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    bench = Bench(chosen.labels, chosen.rounds)

    full = bench.step(bench.method("assume_negative"))
    bench.memory("assume_negative", full, 1.0)
    bench.time("assume_negative", full, 1.3)
    sampled = bench.step(bench.method("dynamic_pseudo_labels", draw="labels", q=0.05, precision="uint8"))
    bench.memory("dynamic_pseudo_labels, q = 0.05", sampled, 1.0)
    bench.time("dynamic_pseudo_labels, q = 0.05", sampled, 0.15)
    optimizer = RowAdagrad(bench.head.parameters())

    def whole() -> None:
        sampled()
        optimizer.step()

    bench.time("the same with its step of RowAdagrad, sparse rows", whole, None)
    bench.memory("binary_cross_entropy, observed labels alone", bench.step(bench.method("binary_cross_entropy")), 1.0)
    bench.time("binary_cross_entropy, observed labels alone", bench.step(bench.method("binary_cross_entropy")), None)
    bench.memory("top 5 of each row", lambda: bench.head.top_k(bench.x.detach(), 5), 1.0)
    bench.time("top 5 of each row", lambda: bench.head.top_k(bench.x.detach(), 5), None)
    bench.rounds = 1
    for name, options in (
        ("asymmetric", {}),
        ("distribution_balanced", {}),
        ("partial_label_masking", {"base": "assume_negative"}),
        ("ldam", {"form": "softmax"}),
        ("comic", {"balance": True}),
    ):
        action = bench.step(bench.method(name, **options))
        bench.memory(name, action, 1.0)
        bench.time(name, action, None)

    about = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": chosen.threads,
        "torch": torch.__version__,
    }
    size = {"labels": chosen.labels, "features": FEATURES, "batch": BATCH, "positives": POSITIVES, "items": ITEMS}
    RESULT.write_text(json.dumps({**about, **size, "results": bench.results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
