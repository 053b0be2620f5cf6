"""Intervals that a plan's table lacks: `python docs/benchmarks/paired.py PLAN ROW OTHER`, accuracy and F1 of two rows.

For each data set and setting that both have finished: ROW minus OTHER in points with its 95 % interval, paired over
test items, mean of the seeds that both have. F1 is at 0.5, of all labels and of the K rarest; accuracy, where each item
has one label, is that of the highest logit. It takes the run folders: records hold no answers to single items.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from raretag.bench import plan as plans
from raretag.bench.results import ITEM_RESAMPLES
from raretag.bench.table import points, seeds_text
from raretag.core.targets import Targets
from raretag.metrics import decide, least_frequent
from raretag.metrics.intervals import difference_of, resampled
from raretag.metrics.weighted import WeightedF1
from raretag.runs import evidence

RUNS = Path(__file__).parent.parent.parent / "runs" / "bench"


class First:
    """Whether the highest logit is that of the item's label: a metric with one class."""

    def __init__(self, logits: Tensor, targets: Targets) -> None:
        self.right = targets.positive.gather(1, logits.argmax(1, keepdim=True)).T  # [1, N]

    def of(self, weights: Tensor) -> Tensor:
        return (self.right.to(weights) @ weights / weights.sum(0)).double()


def compare(name: str, label: str, other: str, budget: str = "small") -> None:
    grid = plans.cells(plans.load(name), budget)
    others = {cell.key: RUNS / f"{name}-{budget}" / cell.name for cell in grid if cell.method.label == other}
    pairs: dict[str, list[tuple[int, Path, Path]]] = {}
    for cell in grid:
        folder = RUNS / f"{name}-{budget}" / cell.name
        if cell.method.label == label and all((one / evidence.LOGITS).is_file() for one in (folder, others[cell.key])):
            pairs.setdefault(", ".join(cell.key[:2]), []).append((cell.seed, folder, others[cell.key]))
    for title, found in pairs.items():
        seeds, ones, bases = zip(*found, strict=True)
        print(f"{title}: {label} - {other}, {seeds_text(seeds)}: {differences(ones, bases)}")


def differences(ones: Sequence[Path], others: Sequence[Path]) -> str:
    kept = evidence.read(ones[0])
    targets = evidence.unpacked("test", kept)
    assert targets is not None
    logits = [[evidence.read_logits(folder)["test"] for folder in some] for some in (ones, others)]
    words = []
    if bool((targets.positive.sum(1) == 1).all()):
        table = resampled(
            [[First(one, targets) for one in some] for some in logits],
            len(targets), {}, resamples=ITEM_RESAMPLES, seed=0,
        )  # fmt: skip
        words.append(told("accuracy", table[0]["total"] - table[1]["total"]))
    rarest = {f"K={k} F1": least_frequent(kept["train_positives"], k) for k in (3, 5)}
    table = resampled(
        [[WeightedF1(decide(torch.sigmoid(one.double()), 0.5), targets) for one in some] for some in logits],
        len(targets), rarest, resamples=ITEM_RESAMPLES, seed=0,
    )  # fmt: skip
    words += [told(key.replace("total", "F1"), table[0][key] - table[1][key]) for key in ("total", *rarest)]
    return ", ".join(words)


def told(title: str, apart: Tensor) -> str:
    found = difference_of(apart)
    return f"{title} {points(found.value, found.low, found.high)}"


if __name__ == "__main__":
    compare(*sys.argv[1:4])
