"""Speed of exact average precision and of the bootstrap.

    pip install torchmetrics==1.9.0
    python benchmarks/metrics.py [--rounds 5] [--quick]

Exact AP of all classes next to torchmetrics (exact, thresholds=None) and scikit-learn. CPU time of one thread; the
three take turns in each round, and the median of the ratio within a round is taken, so that a busy machine disturbs
little. Random labels, 3.6 % positive as in COCO; the scores are logits, of which torchmetrics takes the sigmoid in its
own time. Result: benchmarks/results/metrics.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import sklearn
import torch
import torchmetrics
from sklearn.metrics import average_precision_score
from torch import Tensor
from torchmetrics.functional.classification import multilabel_average_precision

from raretag.core.targets import Targets
from raretag.metrics.bounds import BinnedScores, binned_average_precision
from raretag.metrics.intervals import bootstrap, paired_difference
from raretag.metrics.precision_curve import average_precision

RESULT = Path(__file__).parent / "results" / "metrics.json"
SIZES = {(5000, 80): 3.0, (40_137, 80): 3.0, (5000, 1000): 10.0, (5000, 5000): 10.0}  # goal: times as fast as others


def drawn(items: int, labels: int, dtype: torch.dtype) -> tuple[Tensor, Targets]:
    chance = torch.Generator().manual_seed(0)
    value = (torch.rand(items, labels, generator=chance) < 0.036).float()
    value[0] = 1.0  # every class can be evaluated
    logits = 2.0 * torch.randn(items, labels, generator=chance, dtype=dtype) + 3.0 * value - 4.0
    return logits, Targets(value, torch.ones(items, labels, dtype=torch.bool))


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    result = action()
    return time.process_time() - started, result


def compare(items: int, labels: int, dtype: torch.dtype, rounds: int) -> dict[str, Any]:
    logits, targets = drawn(items, labels, dtype)
    truth = targets.value.int()
    ways: dict[str, Callable[[], Any]] = {
        "raretag": lambda: average_precision(logits, targets).numpy(),
        "torchmetrics": lambda: multilabel_average_precision(
            logits, truth, labels, average="none", validate_args=False
        ).numpy(),
        "scikit-learn": lambda: average_precision_score(truth.numpy(), logits.numpy(), average=None),
    }
    ways["raretag"]()  # the first call loads things
    taken: dict[str, list[float]] = {name: [] for name in ways}
    results = {}
    for _ in range(rounds):
        for name, way in ways.items():
            spent, results[name] = seconds(way)
            taken[name].append(spent)
    row: dict[str, Any] = {"items": items, "labels": labels, "dtype": str(dtype).removeprefix("torch.")}
    row["seconds"] = {name: median(times) for name, times in taken.items()}
    for name in ("torchmetrics", "scikit-learn"):
        ratios = [theirs / ours for theirs, ours in zip(taken[name], taken["raretag"], strict=True)]
        row[f"times as fast as {name}"] = median(ratios)
        row[f"largest difference from {name}"] = float(np.abs(results["raretag"] - results[name]).max())
    return row


def measure_resampling(rounds: int) -> list[dict[str, Any]]:
    logits, targets = drawn(5000, 80, torch.float32)
    other = logits + 0.1 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    groups = {"head": torch.arange(20), "medium": torch.arange(20, 50), "tail": torch.arange(50, 80)}
    size = "1,000 resamples of 5,000 x 80"
    many, of_many = drawn(40_137, 80, torch.float32)
    exact = average_precision(many, of_many)
    error = (binned_average_precision(BinnedScores.of(many, of_many)).middle - exact).abs().max()
    bound = binned_average_precision(BinnedScores.of(many, of_many)).error.max()
    what: list[tuple[str, Callable[[], Any], float]] = [
        (f"interval of mAP, {size}", lambda: bootstrap(logits, targets, groups), 5.0),
        (f"interval of F1, {size}", lambda: bootstrap(logits, targets, groups, metric="F1"), 5.0),
        (
            f"paired difference of mAP, 2 models, {size}",
            lambda: paired_difference(logits, other, targets, groups),
            10.0,
        ),
        (
            f"40,137 x 80 in 2,048 bins (off by {error:.1e} at most, bound {bound:.1e})",
            lambda: binned_average_precision(BinnedScores.of(many, of_many)),
            5.0,
        ),
    ]
    return [
        {"what": name, "seconds": median(seconds(action)[0] for _ in range(rounds)), "goal": goal}
        for name, action, goal in what
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="without 5,000 x 5,000")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

    rows = []
    for (items, labels), goal in SIZES.items():
        if arguments.quick and labels == 5000:
            continue
        for dtype in (torch.float32, torch.float64):
            row = compare(items, labels, dtype, arguments.rounds if labels < 5000 else 1)
            ratio = min(row["times as fast as torchmetrics"], row["times as fast as scikit-learn"])
            close = row["largest difference from scikit-learn"] < 1e-12
            rows.append(row | {"goal": goal, "met": ratio >= goal and close})
            print(
                f"{items:>7,} x {labels:<6,}{row['dtype']:<9}"
                + "".join(f"{name} {spent:.3f} s  " for name, spent in row["seconds"].items())
                + f"ratios {row['times as fast as torchmetrics']:.1f} {row['times as fast as scikit-learn']:.1f}  "
                f"goal {goal:g}  {'met' if rows[-1]['met'] else 'missed'}",
                flush=True,
            )
    resampling = [row | {"met": row["seconds"] < row["goal"]} for row in measure_resampling(min(3, arguments.rounds))]
    for row in resampling:
        print(f"{row['what']:<75}{row['seconds']:.2f} s  goal {row['goal']:g} s  {'met' if row['met'] else 'missed'}")
    versions = {module.__name__: module.__version__ for module in (np, torch, torchmetrics, sklearn)} | {
        "python": platform.python_version()
    }
    RESULT.parent.mkdir(exist_ok=True)
    record = {"machine": platform.machine(), "versions": versions, "average_precision": rows, "resampling": resampling}
    RESULT.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
