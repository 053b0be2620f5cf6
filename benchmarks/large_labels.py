"""One step with a million labels: its memory, and its time beside the matrix products that it cannot do without.

    python benchmarks/large_labels.py [--labels 1000000] [--rounds 3] [--threads 1] [--more]

256 features, 256 items with five positive labels each, the rest unknown. Times are CPU seconds of this process. Each
step stands between two runs of the three products (logits, gradient of the features, gradient of the weights); these
are made in the same blocks, which is quicker than at once, and into fresh memory, as every gradient is. The median
ratio to them is taken. Memory is the growth of the resident set over what it is with the weights in place, less the
gradients. Result: benchmarks/results/large_labels.json.
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

from raretag.core.context import Context
from raretag.core.method import Method, build_method
from raretag.labels.store import LabelStore
from raretag.streamed.head import StreamedHead
from raretag.streamed.row_adagrad import RowAdagrad
from raretag.streamed.targets import ListedTargets, listed_targets

RESULT = Path(__file__).parent / "results" / "large_labels.json"
FEATURES, BATCH, POSITIVES, ITEMS = 256, 256, 5, 256
GIB = 2**30
MORE: tuple[tuple[str, dict[str, str]], ...] = (
    ("asymmetric", {}),
    ("distribution_balanced", {}),
    ("ldam", {"form": "softmax"}),
    ("comic", {}),
)


def labels_of(count: int) -> LabelStore:
    step = count // POSITIVES  # no label twice in a row
    columns = np.random.default_rng(0).integers(0, step, (ITEMS, POSITIVES)) + np.arange(POSITIVES) * step
    ends = np.arange(ITEMS + 1) * POSITIVES
    positives = csr_array((np.ones(columns.size, np.int8), columns.ravel(), ends), shape=(ITEMS, count))
    return LabelStore.from_sparse(positives, absent="unknown")


def products(x: Tensor, weight: Tensor, block: int) -> Callable[[], None]:
    logits = torch.empty(len(x), block)

    def run() -> None:
        gradient, of_features = torch.empty_like(weight), torch.zeros_like(x)
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

    def measure(self, what: str, action: Callable[[], Any], memory_goal: float | None, time_goal: float | None) -> None:
        """Each round stands between two runs of the products; memory is that of the first round."""
        base = products(self.x.detach(), self.head.weights[0].detach(), 2**20 // BATCH)
        found, seconds, above = [], [], 0
        before = clock(base)
        for number in range(self.rounds):
            self.head.zero_grad(set_to_none=True)
            if number == 0:
                above = growth(lambda: seconds.append(clock(action))) - self.bytes_of_gradients()
            else:
                seconds.append(clock(action))
            after = clock(base)
            found.append(2.0 * seconds[-1] / (before + after))
            before = after
        self.head.zero_grad(set_to_none=True)
        self.add(f"{what}: memory", above / GIB, "GiB", memory_goal)
        self.add(f"{what}: CPU seconds", median(seconds), "s", None)
        self.add(f"{what}: time / three products", median(found), "x", time_goal)

    def bytes_of_gradients(self) -> int:
        grads = [p.grad for p in self.head.parameters() if p.grad is not None]
        return sum(4 * (grad._values() if grad.is_sparse else grad).numel() for grad in grads)

    def add(self, what: str, value: float, unit: str, goal: float | None) -> None:
        met = None if goal is None else value <= goal
        self.results.append({"what": what, "measured": value, "unit": unit, "goal": goal, "met": met})
        said = "" if goal is None else f"   goal <= {goal:g}: {'met' if met else 'missed'}"
        print(f"{what:<66}{value:>10.3f} {unit:<4}{said}", flush=True)


def the_goals(bench: Bench) -> None:
    bench.measure("assume_negative", bench.step(bench.method("assume_negative")), 1.0, 1.3)
    sampled = bench.step(bench.method("dynamic_pseudo_labels", draw="labels", q=0.05))
    bench.measure("dynamic_pseudo_labels, q = 0.05", sampled, 1.0, 0.15)
    optimizer = RowAdagrad(bench.head.parameters())

    def with_optimizer() -> None:
        sampled()
        optimizer.step()

    bench.measure("the same with RowAdagrad on sparse rows", with_optimizer, 1.0, None)
    observed = bench.step(bench.method("binary_cross_entropy"))
    bench.measure("binary_cross_entropy, of observed labels alone", observed, 1.0, None)
    bench.measure("top 5 of each row", lambda: bench.head.top_k(bench.x.detach(), 5), 1.0, None)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--labels", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--more", action="store_true", help="methods without closed form instead, for which no goal")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    bench = Bench(chosen.labels, chosen.rounds)

    if chosen.more:
        for name, options in MORE:
            bench.measure(" ".join([name, *options.values()]), bench.step(bench.method(name, **options)), 1.0, None)
    else:
        the_goals(bench)
    about = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": chosen.threads,
        "torch": torch.__version__,
    }
    size = {"labels": chosen.labels, "features": FEATURES, "batch": BATCH, "positives": POSITIVES, "items": ITEMS}
    known = json.loads(RESULT.read_text())["results"] if RESULT.exists() else []
    new = {row["what"] for row in bench.results}
    results = [*(row for row in known if row["what"] not in new), *bench.results]
    RESULT.write_text(json.dumps({**about, **size, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
