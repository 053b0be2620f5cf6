"""What a plan has found so far: numbers of finished runs by method and metric, and differences with their intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.bench.plan import Cell, Key, Plan, cells
from raretag.core.targets import Targets
from raretag.engine.checkpoint import best_epoch
from raretag.metrics.intervals import Difference, difference_of, resampled
from raretag.metrics.weighted import WeightedAveragePrecision
from raretag.runs import evidence
from raretag.runs.cost import FILE as COST

ITEM_RESAMPLES = 500
LABEL_RESAMPLES = 2000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Entry:
    values: tuple[float, ...]  # one for each finished seed
    published: float | None
    place: int  # 0: the best of its column, 1: the second

    @property
    def mean(self) -> float:
        return mean(self.values)

    def text(self, best: Callable[[str], str], second: Callable[[str], str]) -> str:
        if not self.values:
            return "-"
        words = f"{100 * self.mean:.1f}" + (f" ± {100 * stdev(self.values):.1f}" if len(self.values) > 1 else "")
        words = best(words) if self.place == 0 else second(words) if self.place == 1 else words
        return words if self.published is None else f"{words} ({self.published:.1f})"


@dataclass(frozen=True)
class Section:
    """One data set in one setting: a row for each method, a column for each metric."""

    title: str
    rows: dict[str, dict[str, Entry]]
    against: dict[str, Difference]  # mAP of a method minus that of the first, if asked for
    by_label: dict[str, Floats]  # AP minus that of the first method, one number per label; if asked for or `choose`
    costs: dict[str, dict[str, float]]  # mean over seeds of what the runs of a method cost, by column of the plan


def sections(plan: Plan, budget: str, runs: Path, *, paired: bool = False) -> list[Section]:
    """What has been run so far. `paired`: also whether a method differs from the first beyond the choice of items."""
    finished = [(cell, final_of(runs / cell.name)) for cell in cells(plan, budget)]
    found = []
    for data in plan.data:
        for setting in plan.settings:
            here = [(cell, final) for cell, final in finished if cell.data == data and cell.setting == setting]
            if all(final is None for _, final in here):
                continue
            columns = {metric: column(plan, here, metric) for metric in plan.metrics}
            rows = {method.label: {m: columns[m][method.label] for m in columns} for method in plan.methods}
            words = [row.label for row, axis in ((data, plan.data), (setting, plan.settings)) if len(axis) > 1]
            compared = [cell for cell, _ in here]
            against = item_differences(compared, runs) if paired else {}
            by_label = label_differences(compared, runs) if paired or plan.choose else {}
            found.append(Section(", ".join(words), rows, against, by_label, costs_of(plan, compared, runs)))
    return found


def costs_of(plan: Plan, cells: Sequence[Cell], runs: Path) -> dict[str, dict[str, float]]:
    """By method and column; a method without finished runs is not there."""
    values: dict[str, dict[str, list[float]]] = {}
    for cell in cells if plan.costs else ():
        cost = (record_of(runs / cell.name) or {}).get("cost")
        for title, path in plan.costs.items():
            value = reach(cost, path)
            if value is not None:
                values.setdefault(cell.method.label, {}).setdefault(title, []).append(value)
    return {label: {title: mean(some) for title, some in columns.items()} for label, columns in values.items()}


def column(plan: Plan, here: list[tuple[Cell, Any]], metric: str) -> dict[str, Entry]:
    values: dict[str, tuple[float, ...]] = {method.label: () for method in plan.methods}
    for cell, final in here:
        value = reach(final, plan.metrics[metric])
        if value is not None:
            values[cell.method.label] += (value,)
    order = sorted((label for label, some in values.items() if some), key=lambda label: -mean(values[label]))
    entries = {}
    for method in plan.methods:
        key = ", ".join((here[0][0].data.label, here[0][0].setting.label, metric))
        published = method.published.get(key, method.published.get(metric))
        place = order.index(method.label) if method.label in order else len(order)
        entries[method.label] = Entry(values[method.label], published, place)
    return entries


def final_of(folder: Path) -> dict[str, Any] | None:
    """The final metrics of a finished run, with those of validation at the epoch that was kept, to choose by."""
    found = record_of(folder)
    if found is None:
        return None
    history = found["metrics"].get("epochs")
    stopped_early = found.get("config", {}).get("train", {}).get("patience") is not None
    kept = history[best_epoch(history) if stopped_early else -1] if history else {}
    final: dict[str, Any] = found["metrics"]["final"] | {"validation": kept.get("validation")}
    return final


def record_of(folder: Path) -> dict[str, Any] | None:
    """With what the run cost; None for a run that is not finished."""
    record, cost = ((folder / name) for name in ("record.json", COST))
    if not record.is_file():
        return None
    found: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    if cost.is_file():
        found["cost"] = json.loads(cost.read_text(encoding="utf-8"))
    return found


def reach(tree: Any, path: str) -> float | None:
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return None if tree is None else float(tree)


# Is a difference real? ------------------------------------------------------------------------------------------------


def cells_of_first(cells: Sequence[Cell]) -> dict[Key, Cell]:
    """What the others are compared with unless it is said: the cells of the first method."""
    return {cell.key: cell for cell in cells if cell.method.label == cells[0].method.label}


def item_differences(
    cells: Sequence[Cell], runs: Path, against: Mapping[Key, Cell] | None = None
) -> dict[str, Difference]:
    """mAP of each method minus that of the cells `against`, each a mean over the seeds that both have run."""
    against = cells_of_first(cells) if against is None else against
    apart: dict[str, list[Tensor]] = {}
    for cell in cells:
        other = against.get(cell.key)
        one, base = (_resampled_map(runs / which.name) for which in (cell, other or cell))
        if other is not None and one is not None and base is not None:
            apart.setdefault(cell.method.label, []).append(one - base)
    always = labels_that_are(against, cells)
    return {label: difference_of(torch.stack(some).mean(0)) for label, some in apart.items() if label not in always}


def labels_that_are(against: Mapping[Key, Cell], cells: Sequence[Cell]) -> set[str]:
    """Methods that are compared with nothing but themselves."""
    others = {cell.method.label for cell in cells if against.get(cell.key, cell) != cell}
    return {cell.method.label for cell in cells} - others


def _resampled_map(folder: Path) -> Tensor | None:
    """mAP on the test items of a run, then on resamples of them [1 + R]; None if the run kept no labels."""
    path = folder / "logits.safetensors"
    return _resampled_at(folder, path.stat().st_mtime_ns) if path.is_file() else None


@cache
def _resampled_at(folder: Path, when: int) -> Tensor | None:
    """Kept, as a run is compared with several others; `when` it was written tells it from a later one.

    Which items a resample draws depends on the items alone, so runs with the same test part are paired.
    """
    targets: Targets | None = evidence.unpacked("test", evidence.read(folder))
    if targets is None:
        return None
    logits = evidence.read_logits(folder)["test"]
    which = int(targets.positive.double().sum(1).mul(torch.arange(len(targets))).sum()) % 2**31
    measure = WeightedAveragePrecision(logits, targets)
    return resampled([[measure]], len(targets), {}, resamples=ITEM_RESAMPLES, seed=which)[0]["total"]


def label_differences(
    cells: Sequence[Cell], runs: Path, group: str | None = None, against: Mapping[Key, Cell] | None = None
) -> dict[str, Floats]:
    """For each method, AP minus that of the cells `against`: one number per label, a mean over seeds and settings.

    A label counts where both can be measured. `group`: only its labels, as the records have them (by training positives
    before hiding).
    """
    against = cells_of_first(cells) if against is None else against
    apart: dict[str, dict[tuple[str, int], list[float]]] = {}
    for cell in cells:
        if cell.key not in against:
            continue
        record, base = (record_of(runs / which.name) for which in (cell, against[cell.key]))
        if record is None or base is None:
            continue
        one, other = (found["metrics"]["final"]["per_class"]["average_precision"] for found in (record, base))
        if not one or not other:  # only the line of its record is left
            continue
        for at in range(len(one)) if group is None else record["groups"][group]:
            if one[at] is not None and other[at] is not None:
                labels = apart.setdefault(cell.method.label, {})
                labels.setdefault((cell.data.label, at), []).append(one[at] - other[at])
    return {label: np.array([np.mean(values) for values in labels.values()]) for label, labels in apart.items()}


def interval(values: Floats) -> tuple[float, float, float]:
    """Mean, and the middle 95 % of the means of resampled labels."""
    drawn = np.random.default_rng(0).integers(len(values), size=(LABEL_RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return float(values.mean()), float(low), float(high)
