"""Is a difference real? Methods of a table against its first one, on the same resamples of the test items."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from raretag.bench.plan import Cell
from raretag.core.targets import Targets
from raretag.engine import evidence
from raretag.metrics.intervals import Difference, difference_of, resampled
from raretag.metrics.weighted import WeightedAveragePrecision

RESAMPLES = 500


def against_first(cells: Sequence[Cell], runs: Path) -> dict[str, Difference]:
    """mAP of each method minus that of the first, each a mean over the seeds that both have run."""
    labels = list(dict.fromkeys(cell.method.label for cell in cells))
    numbers = {(cell.method.label, cell.seed): resampled_map(runs / cell.name) for cell in cells}
    found = {}
    for label in labels[1:]:
        seeds = [seed for name, seed in numbers if name == label and (labels[0], seed) in numbers]
        pairs = [(numbers[label, seed], numbers[labels[0], seed]) for seed in seeds]
        apart = [one - first for one, first in pairs if one is not None and first is not None]
        if apart:
            found[label] = difference_of(torch.stack(apart).mean(0))
    return found


def resampled_map(folder: Path) -> Tensor | None:
    """mAP on the test items of a run, then on resamples of them [1 + R]; None if the run kept no labels.

    Which items a resample draws depends on the items alone, so runs with the same test part are paired.
    """
    targets: Targets | None = evidence.unpacked("test", evidence.read(folder))
    if targets is None or not (folder / "logits.safetensors").is_file():
        return None
    logits = load_file(folder / "logits.safetensors")["test"]
    which = int(targets.positive.double().sum(1).mul(torch.arange(len(targets))).sum()) % 2**31
    measure = WeightedAveragePrecision(logits, targets)
    return resampled([[measure]], len(targets), {}, resamples=RESAMPLES, seed=which)[0]["total"]
