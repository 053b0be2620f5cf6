"""Paired over labels, of one data set or of several together: is a method better than the first one of the plan?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from raretag.bench.plan import Cell

RESAMPLES = 2000


def differences(cells: Sequence[Cell], runs: Path, group: str | None = None) -> dict[str, np.ndarray]:
    """For each method, AP minus that of the first method: one number a label, a mean over seeds and settings.

    A label counts where both can be measured. `group`: only its labels, as the records have them (by training positives
    before hiding).
    """
    first = cells[0].method.label
    records = {(cell.method.label, *cell.key): record_of(runs / cell.name) for cell in cells}
    apart: dict[str, dict[tuple[str, int], list[float]]] = {}
    for (label, data, setting, seed), record in records.items():
        base = records.get((first, data, setting, seed))
        if record is None or base is None:
            continue
        one, other = (found["metrics"]["final"]["per_class"]["average_precision"] for found in (record, base))
        for at in range(len(one)) if group is None else record["groups"][group]:
            if one[at] is not None and other[at] is not None:
                apart.setdefault(label, {}).setdefault((data, at), []).append(one[at] - other[at])
    return {label: np.array([np.mean(values) for values in labels.values()]) for label, labels in apart.items()}


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean, and the middle 95 % of the means of resampled labels."""
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def record_of(folder: Path) -> dict[str, Any] | None:
    path = folder / "record.json"
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found
