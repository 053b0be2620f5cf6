"""A metric of each label: of a run beside its baseline, or what it gains from one run to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import (
    BLUE,
    COLOURS,
    MARKERS,
    RED,
    SKY,
    canvas,
    grid,
    label_axis,
    mark_groups,
    titled,
    width_for,
)
from raretag.figures.parts.runs import Run, differing, read_runs, same_labels, setting, settings, titles, written

METRICS = ("f1", "average_precision", "precision", "recall", "accuracy")
METRICS_OF_CHANGE = ("average_precision", "f1", "precision", "recall")


class PerClass:
    """A metric of each label: the first run as bars, the baseline as points.

    Figures 3, 4 and 8 of the PLM paper. Give the method first and its baseline after it. Runs on different data (other
    degrees of imbalance) get panels of their own. `accuracy` is the share of a label's items in which it has the
    highest score, as for data with one label per item.
    """

    def __init__(self, *, metric: str = "f1") -> None:
        self.metrics = [word.strip() for word in metric.split(",")]
        for word in self.metrics:
            if word not in METRICS:
                raise UserError(f"per_class.metric is '{metric}'; expected some of {', '.join(METRICS)}, with commas")

    def draw(self, words: list[str]) -> Figure:
        runs = read_runs(words, 2, why="the first is drawn as bars, its baseline as points")
        panels = by_data(runs)
        rows = [(panel, metric) for panel in panels for metric in self.metrics]
        labels = max(len(panel[0].labels) for panel in panels)
        figure, axes = canvas(len(rows), 1, width_for(labels), 1.2 + 2.3 * len(rows))
        for place, (panel, metric) in enumerate(rows):
            one: Axes = axes[place, 0]
            bars_and_points(one, panel, metric)
            mark_groups(one, panel[0].group_sizes)
            named = place == len(rows) - 1 or panel[0].labels != rows[place + 1][0][0].labels
            label_axis(one, [panel[0].labels[label] for label in panel[0].order])
            if not named:
                one.set_xticklabels([])
            if len(panels) > 1:
                titled(one, title_of(panel, panels), pad=20)
        handles, names = axes[0, 0].get_legend_handles_labels()
        bars_first = sorted(zip(handles, names, strict=True), key=lambda pair: isinstance(pair[0], Line2D))
        figure.legend(*zip(*bars_first, strict=True), loc="outside upper left", frameon=False, ncols=4, fontsize=9)
        return figure


def bars_and_points(axes: Axes, panel: list[Run], metric: str) -> None:
    order = panel[0].order
    places = np.arange(len(order))
    names = titles(panel)
    for number, (run, name) in enumerate(zip(panel, names, strict=True)):
        values = 100 * values_of(run, metric)[order]
        if number == 0:
            axes.bar(places, values, color=SKY, width=0.8, label=name)
            continue
        style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number - 1], "markeredgecolor": "white"}
        axes.plot(places, values, linestyle="none", markersize=7, clip_on=False, zorder=3, label=name, **style)
    axes.set_ylim(0, 104)
    axes.set_ylabel(f"{metric.replace('_', ' ').replace('f1', 'F1')}, %", fontsize=10)
    grid(axes)


def values_of(run: Run, metric: str) -> NDArray[np.float64]:
    return np.array(run.per_class(metric)) if metric != "accuracy" else accuracy(run)


def accuracy(run: Run) -> NDArray[np.float64]:
    """[C], NaN for a label without test items."""
    from raretag.figures.parts.scores import scored

    scores, positive, _ = scored(run, "test")
    first = scores.argmax(1)
    hits = positive[np.arange(len(first)), first]
    found = np.bincount(first[hits], minlength=positive.shape[1])
    number = positive.sum(0)
    return np.where(number > 0, found / np.maximum(number, 1), np.nan)


def by_data(runs: list[Run]) -> list[list[Run]]:
    """Runs on the same data, in the order in which they came; each of these needs a baseline."""
    panels: dict[str, list[Run]] = {}
    for run in runs:
        data = {key: value for key, value in settings(run).items() if key.startswith("data.")}
        panels.setdefault(repr(sorted(data.items(), key=str)), []).append(run)
    for panel in panels.values():
        same_labels(panel)
        if len(panel) < 2:
            raise UserError(f"'{panel[0].folder}' is the only run on its data, so there is no baseline to compare with")
        if len(panel) > len(MARKERS):
            raise UserError(f"{len(panel)} runs on one data set are too many for one drawing; at most {len(MARKERS)}")
    return list(panels.values())


def title_of(panel: list[Run], panels: list[list[Run]]) -> str:
    keys = [key for key in differing([one[0] for one in panels]) if key.startswith("data.") and key != "data.name"]
    words = [f"{key.split('.')[-1]} {written(setting(panel[0], key))}" for key in keys]
    return ", ".join([panel[0].data, *words])


class Increments:
    """What each step of a method gains for each label: average precision of a run minus that of the run before.

    Figure 6 of the DB paper, whose steps are plain training, class-aware sampling, re-balanced weights, the whole loss.
    """

    def __init__(self, *, metric: str = "average_precision") -> None:
        if metric not in METRICS_OF_CHANGE:
            raise UserError(f"increments.metric is '{metric}'; expected one of {', '.join(METRICS_OF_CHANGE)}")
        self.metric = metric

    def draw(self, words: list[str]) -> Figure:
        runs = read_runs(words, 2, why="each is compared with the one before it")
        same_labels(runs)
        order, steps = runs[0].order, len(runs) - 1
        figure, axes = canvas(steps, 1, width_for(len(order)), 1.3 + 1.9 * steps, sharex=True, sharey=True)
        places = np.arange(len(order))
        names = titles(runs)
        for step, one in enumerate(axes[:, 0]):
            values = [100 * np.array(run.per_class(self.metric))[order] for run in runs[step : step + 2]]
            change = values[1] - values[0]
            one.bar(places, change, color=np.where(change >= 0, BLUE, RED), width=0.8)
            one.axhline(0, color="black", linewidth=0.8)
            known = change[~np.isnan(change)]
            mean = f"  (mean {known.mean():+.1f})" if len(known) else ""
            titled(one, f"{names[step]}  →  {names[step + 1]}{mean}", pad=20 if step == 0 else None)
            mark_groups(one, runs[0].group_sizes, named=step == 0)
            grid(one)
        label_axis(axes[-1, 0], [runs[0].labels[label] for label in order])
        word = "AP" if self.metric == "average_precision" else self.metric
        figure.supylabel(f"change of {word}, points", fontsize=10)
        return figure
