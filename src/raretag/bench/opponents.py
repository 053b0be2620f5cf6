"""What the rows of a plan are measured against: its first method, the opponent that folds choose, the best on test.

A user cannot look at the test part, so the honest opponent of a data set is the one that held-out folds of its training
items choose: the best `out_of_fold_mAP`, which every opponent writes into its record (`method.learned`), for each data
set, setting and seed. The best opponent on the test part is an oracle that nobody has; it shows how much is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TypeAlias

from raretag.bench.plan import Cell, Key, Plan, Row, cells
from raretag.bench.results import Apart, cells_of_first, over_items, reach, record_of

OUT_OF_FOLD = "method.learned.out_of_fold_mAP"
OWN = ("F1_tuned.total", "micro_F1_tuned")  # of a method's own decisions
PLAIN = {"F1_tuned.total": "F1.total", "micro_F1_tuned": "micro_F1"}  # the same at the plain cut


Points: TypeAlias = Callable[[float, float, float], str]  # writes a difference and its interval


@dataclass(frozen=True)
class Reference:
    """A cell for each data set, setting and seed."""

    title: str
    cells: Mapping[Key, Cell]
    is_first: bool = False

    def compared(self, plan: Plan) -> list[Row]:
        return [method for method in plan.methods if method.label not in {*plan.opponents, *plan.clocks}]

    def names(self, data: str, setting: str) -> str:
        """Which methods it is, and how often over the seeds: "MLP, L x 2"."""
        found = Counter(cell.method.label for key, cell in self.cells.items() if key[:2] == (data, setting))
        return ", ".join(label if times == 1 else f"{label} x {times}" for label, times in found.items())


def references(plan: Plan, some: Sequence[Cell], runs: Path) -> list[Reference]:
    """The first method and, if the plan names opponents, the two that are chosen among them."""
    found = [Reference(plan.methods[0].label, cells_of_first(some), is_first=True)]
    if plan.opponents:
        opponents = [cell for cell in some if cell.method.label in plan.opponents]
        found.append(Reference("the opponent that folds choose", best_by(OUT_OF_FOLD, opponents, runs)))
        found.append(Reference("the best opponent on test", best_by("metrics.final.mAP.total", opponents, runs)))
    return found


def best_by(path: str, some: Sequence[Cell], runs: Path) -> dict[Key, Cell]:
    """The finished cell of each data set, setting and seed with the highest number at a place of its record."""
    best: dict[Key, tuple[float, Cell]] = {}
    for cell in some:
        value = reach(record_of(runs / cell.name), path)
        if value is not None and (cell.key not in best or value > best[cell.key][0]):
            best[cell.key] = (value, cell)
    return {key: cell for key, (_, cell) in best.items()}


def against_opponents(plan: Plan, budget: str, runs: Path, points: Points) -> str:
    """For each method that is no opponent: a line for each data set and setting. `points` writes a difference."""
    if not plan.opponents:
        return ""
    grid = cells(plan, budget)
    found = references(plan, grid, runs)
    clocks = {
        label: {cell.key: cell for cell in grid if cell.method.label == label}
        for label in plan.clocks or [found[0].title]
    }
    lines: list[str] = []
    for method in found[0].compared(plan):
        heads = ["chosen by folds", f"mAP - {found[0].title}", "mAP - chosen", "mAP - best on test"]
        heads += ["macro F1 - best opponent's", "micro F1 - best opponent's", *(f"CPU s / {one}" for one in clocks)]
        rows = []
        for data in plan.data:
            for setting in plan.settings:
                here = [cell for cell in grid if cell.data == data and cell.setting == setting]
                mine = [cell for cell in here if cell.method == method]
                if not any(record_of(runs / cell.name) for cell in mine):
                    continue
                shown = [f"{data.label}, {setting.label}", found[1].names(data.label, setting.label)]
                for reference in found:
                    apart = over_items(mine, runs, reference.cells).get(method.label)
                    shown.append(with_interval(mean_ahead(mine, reference.cells, runs), apart, points))
                shown += [_f1_ahead(plan, here, method.label, path, runs) for path in OWN]
                shown += [_cost_ratio(mine, one, runs) for one in clocks.values()]
                rows.append("| " + " | ".join(shown) + " |")
        if rows:
            lines += [f"### {method.label} against the opponents", "", "| | " + " | ".join(heads) + " |"]
            lines += ["|---|" + "---|" * len(heads), *rows, ""]
    return "\n".join(lines)


def mean_ahead(mine: Sequence[Cell], others: Mapping[Key, Cell], runs: Path) -> tuple[float, int] | None:
    """mAP minus that of the others and of how many seeds this is the mean; None if none is finished."""
    path = "metrics.final.mAP.total"
    pairs = [
        (reach(record_of(runs / cell.name), path), reach(record_of(runs / others[cell.key].name), path))
        for cell in mine
        if cell.key in others
    ]
    apart = [one - other for one, other in pairs if one is not None and other is not None]
    return (mean(apart), len(apart)) if apart else None


def with_interval(ahead: tuple[float, int] | None, apart: Apart | None, points: Points) -> str:
    """A mean over seeds, and the interval of those that kept their scores, which are named if they are fewer."""
    if ahead is None:
        return "-"
    if apart is None:
        return f"{100 * ahead[0]:+.1f}"
    interval = points(apart.value, apart.low, apart.high)
    if len(apart.seeds) == ahead[1]:
        return interval
    return f"{100 * ahead[0]:+.1f}; seed {', '.join(map(str, apart.seeds))}: {interval}"


def _f1_ahead(plan: Plan, here: Sequence[Cell], label: str, path: str, runs: Path) -> str:
    """F1 of a method's own decisions minus the highest of the opponents', at the plain cut or at tuned thresholds."""
    own = _mean(here, label, path, runs)
    others = [_mean(here, one, way, runs) for one in plan.opponents for way in (path, PLAIN[path])]
    known = [value for value in others if value is not None]
    return "-" if own is None or not known else f"{100 * (own - max(known)):+.1f}"


def _mean(here: Sequence[Cell], label: str, path: str, runs: Path) -> float | None:
    """Over the seeds."""
    records = [record_of(runs / cell.name) for cell in here if cell.method.label == label]
    values = [value for one in records if (value := reach(one, f"metrics.final.{path}")) is not None]
    return mean(values) if values else None


def _cost_ratio(mine: Sequence[Cell], base: Mapping[Key, Cell], runs: Path) -> str:
    """CPU seconds of fitting over those of the reference, summed over the seeds that both have."""
    pairs = [
        [reach(record_of(runs / which.name), "cost.fit") for which in (cell, base[cell.key])]
        for cell in mine
        if cell.key in base
    ]
    whole = [(one, other) for one, other in pairs if one is not None and other]
    return f"{sum(one for one, _ in whole) / sum(other for _, other in whole):.1f}" if whole else "-"
