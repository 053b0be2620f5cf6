"""Head, balanced and tail branch of COMIC during training: mAP, loss, and which labels each branch serves.

Figure 6 of COMIC. One run gives (b) to (d); a second one, whose branches learn apart (`method.balance=false`,
`branches.name=head_tail`, `branches.attention=false`), gives (a). Numbers are of the validation items.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, GREEN, RED, canvas, grid, legend_below, titled
from raretag.figures.parts.runs import Run, of_each_epoch, read_runs, setting

STYLES = {"head": (BLUE, "o"), "balanced": (GREEN, "s"), "tail": (RED, "^")}


class Branches:
    def draw(self, words: list[str]) -> Figure:
        runs = read_runs(words, 1, 2, "comic with its three branches, and perhaps one whose branches learn apart")
        joint = [run for run in runs if setting(run, "method.balance") is not False]
        apart = [run for run in runs if setting(run, "method.balance") is False]
        if len(joint) > 1:
            raise UserError("two runs of joint training: expected one, and one with method.balance=false")
        if len(apart) > 1:
            raise UserError("two runs of separate training: expected one, and one of joint training")
        panels: list[tuple[str, Any, Run]] = [("separate training", mean_precision, run) for run in apart]
        panels += [("joint training", mean_precision, run) for run in joint]
        panels += [("loss of each branch", loss, run) for run in joint or apart]
        panels += [("head branch against tail branch", head_and_tail, run) for run in joint or apart]
        columns = 2 if len(panels) == 4 else len(panels)
        rows = -(-len(panels) // columns)
        figure, axes = canvas(rows, columns, 1.0 + 4.0 * columns, 0.4 + 3.5 * rows)
        for letter, one, (title, draw, run) in zip("abcd"[4 - len(panels) :], axes.flat, panels, strict=True):
            draw(one, run)
            titled(one, f"({letter}) {title}")
            grid(one)
            legend_below(one, 2 if draw is head_and_tail else 3)
        if apart and joint:
            both = [axes.flat[0], axes.flat[1]]
            low, high = min(one.get_ylim()[0] for one in both), max(one.get_ylim()[1] for one in both)
            for one in both:
                one.set_ylim(low, high)
        return figure


def mean_precision(axes: Axes, run: Run) -> None:
    for branch, (colour, marker) in STYLES.items():
        line(axes, precision(run, branch, "total"), colour, marker, "-", branch)
    axes.set_ylabel("mAP of all labels, %", fontsize=10)


def head_and_tail(axes: Axes, run: Run) -> None:
    for branch in ("head", "tail"):
        for group, dashes in (("head", "-"), ("tail", "--")):
            values = precision(run, branch, group)
            if not np.isnan(values).all():
                line(axes, values, *STYLES[branch], dashes, f"{branch} branch, {group} labels")
    axes.set_ylabel("mAP of the group, %", fontsize=10)


def loss(axes: Axes, run: Run) -> None:
    steps = [row["step"] for row in run.epochs]
    for branch, (colour, marker) in STYLES.items():
        values = of_each_epoch(
            run, "vital_signs", f"loss_{branch}", wanted="expected a run of comic with three branches"
        )
        every = max(1, len(steps) // 6)
        axes.plot(steps, values, color=colour, marker=marker, markevery=every, markersize=5, label=branch)
    axes.set_xlabel("iteration", fontsize=10)
    axes.set_ylabel("loss, mean of the epoch", fontsize=10)


def precision(run: Run, branch: str, group: str) -> np.ndarray[Any, Any]:
    """mAP in percent of each epoch."""
    rows = of_each_epoch(run, "branches", branch, wanted="expected a run of comic with three branches")
    return np.array([np.nan if (value := row["mAP"][group]) is None else 100 * value for row in rows])


def line(axes: Axes, values: np.ndarray[Any, Any], colour: str, marker: str, dashes: str, name: str) -> None:
    epochs = np.arange(1, len(values) + 1)
    every = max(1, len(epochs) // 6)
    axes.plot(epochs, values, dashes, color=colour, marker=marker, markevery=every, markersize=5, label=name)
    axes.set_xlabel("epoch", fontsize=10)
