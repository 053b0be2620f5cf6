"""How time and memory grow with items and labels, for everything between a label file and a loss.

    python benchmarks/growth.py [--quick] [--draw]

Generated labels, five positives an item, the rest unknown. Each line names what it must touch at least (positives,
entries of a batch, indices drawn); the exponent of its CPU time over that, fitted to the largest sizes, should be about
1. One thread. Writes benchmarks/results/growth.json, docs/performance/growth.png and the tables of growth.md next to
it; `--draw` only draws what was measured before. `--quick` takes three sizes and writes growth_quick.json alone.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from raretag.core.context import Context
from raretag.core.method import build_method
from raretag.core.targets import Targets
from raretag.labels.counts import describe
from raretag.labels.split import split
from raretag.labels.store import LabelStore
from raretag.metrics.evaluation import evaluate
from raretag.sampling.class_aware import ClassAware
from raretag.sampling.epochs import Undersample
from raretag.streamed.head import StreamedHead
from raretag.streamed.targets import listed_targets

HERE = Path(__file__).parent
RESULT, PAGE = HERE / "results" / "growth.json", HERE.parent / "docs" / "performance" / "growth.md"
POSITIVES, BATCH, FEATURES = 5, 64, 64
LINEAR = 1.5  # goal: no exponent of time above. Leaving the caches gives up to 1.3; what is quadratic gives 2
MARK = "<!-- written by benchmarks/growth.py from here on -->"
Run = tuple[str, str, Callable[[], Any], Callable[[Any], float]]  # what, touched, action, how much was touched


def matrix(items: int, labels: int) -> csr_array:
    step = labels // POSITIVES  # no label twice in a row
    columns = np.random.default_rng(0).integers(0, step, (items, POSITIVES), np.int32)
    columns += np.arange(POSITIVES, dtype=np.int32) * step
    ends = np.arange(items + 1) * POSITIVES
    return csr_array((np.ones(columns.size, np.int8), columns.ravel(), ends), shape=(items, labels))


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measured(action: Callable[[], Any]) -> tuple[float, int, Any]:
    """CPU seconds of the quicker of two runs (one, if it is long), and the highest growth of the resident memory."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # else memory that was freed before hides what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    before = resident("VmRSS")
    seconds = math.inf
    for _ in range(2):
        started = time.process_time()
        result = action()
        seconds = min(seconds, time.process_time() - started)
        if seconds > 1:
            break
    return seconds, max(resident("VmHWM") - before, 0), result


def of_items(items: int) -> Iterator[Run]:
    labels = 1000
    positives = matrix(items, labels)
    store = LabelStore.from_sparse(positives, absent="unknown")
    many = float(items * POSITIVES)
    yield (
        "store from a sparse matrix",
        "positives",
        lambda: LabelStore.from_sparse(positives, "unknown"),
        lambda _: many,
    )
    yield "statistics, without pairs", "positives", lambda: store.statistics(cooccurrence=False), lambda _: many
    yield "statistics, with pairs", "pairs", lambda: store.statistics(cooccurrence=True), lambda _: many * POSITIVES
    yield (
        "class-aware sampler, an epoch",
        "drawn + positives",
        lambda: ClassAware(positives).epoch(1),
        lambda o: len(o) + many,
    )
    yield "undersample, an epoch", "positives", lambda: Undersample(positives).epoch(1), lambda _: many
    rows = torch.randint(items, (4096,))
    yield "store: 4,096 rows of it as lists", "a constant", lambda: listed_targets(store, rows), lambda _: 4096.0
    if items <= 100_000:
        few = LabelStore.from_sparse(matrix(items, 20), absent="unknown")
        yield "split into three, 20 labels", "positives", lambda: split(few, (0.8, 0.1, 0.1)), lambda _: many
    if items <= 1_000_000:
        logits, entries = torch.randn(items, 20), float(items * 20)
        yield "all metrics, 20 labels", "entries", lambda: assessed(logits), lambda _: entries


def of_labels(labels: int) -> Iterator[Run]:
    items = 100_000
    positives = matrix(items, labels)
    store = LabelStore.from_sparse(positives, absent="unknown")
    statistics = store.statistics(cooccurrence=False)
    many = float(items * POSITIVES + labels)
    yield (
        "statistics, without pairs",
        "positives + labels",
        lambda: store.statistics(cooccurrence=False),
        lambda _: many,
    )
    if labels >= 10_000:  # dense below 4,096 labels, by choice
        pairs = float(items * POSITIVES**2)
        yield "statistics, with pairs, sparse", "pairs", lambda: store.statistics(cooccurrence=True), lambda _: pairs
    yield (
        "class-aware sampler, an epoch",
        "drawn + positives + labels",
        lambda: ClassAware(positives).epoch(1),
        (lambda order: len(order) + many),
    )
    yield (
        "description of a data set",
        "labels, of which each has a line",
        lambda: describe(store),
        lambda _: float(labels),
    )
    rows = torch.arange(BATCH)
    entries = float(BATCH * labels)
    if labels <= 100_000:
        yield "store: 64 rows, dense", "entries of the batch", lambda: store.targets(rows), lambda _: entries
        z = torch.randn(BATCH, labels).requires_grad_()
        method, dense = build_method("assume_negative", statistics, items=items), store.targets(rows)
        method.loss(z, dense).backward()  # large batches are compiled, once
        yield (
            "loss and gradient",
            "entries of the batch",
            lambda: method.loss(z, dense).backward(),
            lambda _: entries,
        )
        logits = torch.randn(200, labels)
        yield "all metrics, 200 items", "entries", lambda: assessed(logits), lambda _: 200.0 * labels
    yield "store: 64 rows, as lists", "a constant", lambda: listed_targets(store, rows), lambda _: 64.0
    yield from of_streamed(store, labels, entries)


def of_streamed(store: LabelStore, labels: int, entries: float) -> Iterator[Run]:
    torch.manual_seed(0)
    head, x, rows = StreamedHead(FEATURES, labels, sparse=True), torch.randn(BATCH, FEATURES), torch.arange(BATCH)
    statistics, context = store.statistics(cooccurrence=False), Context(index=rows)
    targets = listed_targets(store, rows)

    def step(name: str, **options: Any) -> Callable[[], None]:
        method = build_method(name, statistics, items=BATCH, **options)

        def run() -> None:
            head.zero_grad(set_to_none=True)
            head.loss(method, x, targets, context).backward()

        return run

    yield "streamed head, loss and gradients", "entries of the batch", step("assume_negative"), lambda _: entries
    sampled = step("dynamic_pseudo_labels", draw="labels", q=0.05)
    yield "the same, q = 0.05", "entries of the batch", sampled, lambda _: entries
    yield "streamed head, top 5", "entries of the batch", lambda: head.top_k(x, 5), lambda _: entries


def assessed(logits: torch.Tensor) -> Any:
    generator = torch.Generator().manual_seed(0)
    value = (torch.rand(logits.shape, generator=generator) < 0.1).float()
    targets = Targets(value, torch.ones_like(value, dtype=torch.bool))
    return evaluate(logits, targets, groups={}, training_positives=value.sum(0))


def measure(quick: bool) -> list[dict[str, Any]]:
    found = []
    sweeps = (
        ("items", of_items, [10**k for k in (range(4, 7) if quick else range(3, 8))]),
        ("labels", of_labels, [10**k for k in (range(3, 6) if quick else range(1, 7))]),
    )
    for axis, runs, sizes in sweeps:
        for size in sizes:
            for what, touched, action, amount in runs(size):
                seconds, memory, result = measured(action)
                found.append(
                    {"axis": axis, "size": size, "what": what, "touched": touched, "amount": float(amount(result)),
                     "seconds": seconds, "memory": memory}
                )  # fmt: skip
                print(f"{axis} {size:>10,}  {what:<36}{seconds:>10.4f} s{memory / 2**20:>10.1f} MiB", flush=True)
                del result
    return found


def exponent(points: list[dict[str, Any]], of: str, floor: float) -> float | None:
    """The slope in log-log of the (up to three) largest sizes, without those too small to be measured."""
    large = [point for point in points if point[of] > floor][-3:]
    x = np.log([point["amount"] for point in large])
    if len(large) < 2 or x[-1] - x[0] < 0.5:
        return None
    return float(np.polyfit(x, np.log([point[of] for point in large]), 1)[0])


def steepest(found: list[dict[str, Any]], axis: str) -> tuple[str, float]:
    """What grows fastest with that which it must touch."""
    exponents = {name: exponent(points, "seconds", 1e-2) for name, points in lines(found, axis)}
    return max(((name, value) for name, value in exponents.items() if value is not None), key=lambda pair: pair[1])


def lines(found: list[dict[str, Any]], axis: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    names = list(dict.fromkeys(point["what"] for point in found if point["axis"] == axis))
    for name in names:
        yield name, [point for point in found if point["axis"] == axis and point["what"] == name]


def draw(found: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(13, 9), sharex="col")
    for column, (axis, title) in enumerate((("items", "items N (C = 1,000)"), ("labels", "labels C (N = 100,000)"))):
        for row, (of, unit, scale) in enumerate((("seconds", "CPU seconds", 1.0), ("memory", "peak MiB", 2.0**-20))):
            ax = axes[row][column]
            for number, (name, points) in enumerate(lines(found, axis)):
                ax.plot(
                    [point["size"] for point in points],
                    [max(point[of] * scale, 1e-5 if row == 0 else 0.1) for point in points],
                    marker="osv^Dx"[number % 6], color=f"C{number % 10}", ls="-" if number < 10 else "--",
                    label=name, ms=4, lw=1.3,
                )  # fmt: skip
            ax.set(xscale="log", yscale="log", ylabel=unit, xlabel=title if row == 1 else "")
            low, high = ax.get_xlim()
            bottom, top = ax.get_ylim()
            top *= 1e3 if row == 0 else 1.0  # room for the legend
            for shift in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1):  # slope 1, to compare with
                ax.plot([low, high], [low * shift, high * shift], color="0.88", lw=0.8, zorder=0)
            ax.set_xlim(low, high)
            ax.set_ylim(bottom, top)
            if row == 0:
                ax.legend(fontsize=7.5, loc="upper left", frameon=False)
    figure.suptitle("Growth with items and labels; grey lines have slope 1")
    figure.tight_layout()
    figure.savefig(PAGE.with_suffix(".png"), dpi=110)


def page(found: list[dict[str, Any]]) -> None:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    text = [MARK, ""]
    for axis, title in (("items", "Over items, 1,000 labels"), ("labels", "Over labels, 100,000 items")):
        text += [f"## {title}", "", "| what | must touch | largest | CPU s | peak MiB | exponent of time | of memory |"]
        text += ["|---|---|---:|---:|---:|---:|---:|"]
        for name, points in lines(found, axis):
            last, times, memory = points[-1], exponent(points, "seconds", 1e-2), exponent(points, "memory", 2**24)
            numbers = f"{last['size']:,} | {last['seconds']:.3g} | {last['memory'] / 2**20:,.0f}"
            text.append(f"| {name} | {last['touched']} | {numbers} | {shown(times)} | {shown(memory)} |")
        text.append("")
    before = PAGE.read_text().split(MARK)[0] if PAGE.exists() else "# Growth\n\n"
    PAGE.write_text(before + "\n".join(text))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="three sizes of each, no pictures")
    arguments.add_argument("--draw", action="store_true", help="measure nothing")
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    if chosen.quick:
        found = measure(quick=True)
        RESULT.with_name("growth_quick.json").write_text(json.dumps(found, indent=1) + "\n")
        for axis in ("items", "labels"):
            name, value = steepest(found, axis)
            print(f"over {axis}: steepest is {name}, time ~ {value:.2f}; goal {LINEAR}")
        return
    if not chosen.draw:
        RESULT.write_text(json.dumps(measure(quick=False), indent=1) + "\n")
    found = json.loads(RESULT.read_text())
    draw(found)
    page(found)


if __name__ == "__main__":
    main()
