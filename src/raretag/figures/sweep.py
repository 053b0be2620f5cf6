"""How a setting changes the result: mAP of all labels, head, medium and tail at each of its values.

Figures 7 and 10 of the DB paper and figure 3 of COMIC. Give all runs: every set of them that differs in one number (and
perhaps in the seed, over which the mean is taken) becomes a panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, GREEN, MARKERS, RED, canvas, grid, titled
from raretag.figures.parts.runs import Run, differing, read_runs, setting, written

SERIES = {"total": "black", "head": BLUE, "medium": GREEN, "tail": RED}
MOST = 12  # panels


@dataclass(frozen=True)
class Line:
    key: str
    runs: dict[float, list[Run]]  # by value: the seeds

    @property
    def one(self) -> Run:
        return next(iter(self.runs.values()))[0]


class Sweep:
    def __init__(self, *, settings: str = "", metric: str = "mAP") -> None:
        if metric not in ("mAP", "F1", "precision", "recall"):
            raise UserError(f"sweep.metric is '{metric}'; expected one of mAP, F1, precision, recall")
        self.settings, self.metric = [word.strip() for word in settings.split(",") if word.strip()], metric

    def draw(self, words: list[str]) -> Figure:
        runs = read_runs(words, 2, why="they must differ in one setting")
        lines = lines_of(runs, self.settings)
        if not lines:
            wanted = " or ".join(self.settings) or "one number"
            differ = ", ".join(differing(runs)) or "nothing but the seed"
            raise UserError(f"no two of these runs differ in {wanted} alone; they differ in {differ}")
        if len(lines) > MOST:
            raise UserError(f"{len(lines)} panels are too many; choose the setting with --set settings=method.beta")
        columns = min(len(lines), 3)
        rows = -(-len(lines) // columns)
        figure, axes = canvas(rows, columns, 1.0 + 3.6 * columns, 0.5 + 3.3 * rows)
        for one, line in zip(axes.flat, lines, strict=False):
            self.panel(one, line, lines)
        for one in list(axes.flat)[len(lines) :]:
            one.set_visible(False)
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", frameon=False, ncols=4, fontsize=9)
        return figure

    def panel(self, axes: Axes, line: Line, lines: list[Line]) -> None:
        places = sorted(line.runs)
        for marker, (series, colour) in zip(MARKERS, SERIES.items(), strict=False):
            found = [[value_of(run, self.metric, series) for run in line.runs[place]] for place in places]
            means = np.array([np.mean(values) for values in found])
            spread = np.array([np.std(values, ddof=1) if len(values) > 1 else 0.0 for values in found])
            if np.isnan(means).all():  # a group without labels
                continue
            axes.errorbar(
                places, means, spread if spread.any() else None, color=colour, marker=marker, markersize=6,
                linewidth=2 if series == "total" else 1.3, capsize=3, label=series,
            )  # fmt: skip
        if places[0] > 0 and places[-1] / places[0] >= 10:
            axes.set_xscale("log")
            axes.set_xticks(places, [f"{place:g}" for place in places])
        else:
            axes.set_xticks(places, tick_labels(places))
        axes.minorticks_off()
        axes.set_xlabel(line.key.removeprefix("method."), fontsize=10)
        axes.set_ylabel(f"{self.metric}, %", fontsize=10)
        grid(axes)
        keys = [
            key
            for key in differing([other.one for other in lines])
            if key not in ("data.name", *(o.key for o in lines))
        ]
        known = {key: setting(line.one, key) for key in keys}
        words = [
            f"{key.removesuffix('.name').split('.')[-1]}={written(value)}"
            for key, value in known.items()
            if value is not None  # of another method
        ]
        titled(axes, "\n".join(some for some in (line.one.data, ", ".join(words)) if some))


def tick_labels(places: Sequence[float]) -> list[str]:
    """Of values on a linear axis; one that stands too near the last that is named has none, as they would overlap."""
    names, last = [], float("-inf")
    for place in places:
        near = place - last < 0.06 * (places[-1] - places[0])
        names.append("" if near else f"{place:g}")
        last = last if near else place
    return names


def lines_of(runs: Sequence[Run], wanted: Sequence[str]) -> list[Line]:
    """Runs that share all settings but one, which has two values at least. For all wanted settings, or for any."""
    keys = differing(runs)
    lines = []
    for key in wanted or keys:
        if key not in keys:
            continue
        others = [other for other in keys if other != key]
        sets: dict[str, dict[float, list[Run]]] = {}
        for run in runs:
            value = setting(run, key)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            rest = repr([setting(run, other) for other in others])
            sets.setdefault(rest, {}).setdefault(float(value), []).append(run)
        lines += [Line(key, some) for some in sets.values() if len(some) > 1]
    return lines


def value_of(run: Run, metric: str, series: str) -> float:
    value: Any = run.final[metric].get(series)
    return float("nan") if value is None else 100.0 * float(value)
