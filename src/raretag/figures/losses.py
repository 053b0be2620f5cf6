"""Runs with different losses: what they reach, and how their training loss falls.

Figure 4 of COMIC. Left: mAP of all labels and the mean over head, medium and tail. Right: only runs of the same loss,
with all or some of its factors, because the numbers of different losses cannot be compared; where no two runs share one
there is only the left panel, which is figure 2 of Zhang et al.
"""

from __future__ import annotations

from collections import Counter
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from raretag.figures.parts.canvas import BLUE, COLOURS, HATCHED, MARKERS, ORANGE, canvas, grid, legend_above
from raretag.figures.parts.runs import Run, read_runs, setting, titles

LINE = 26  # letters


class Losses:
    def draw(self, words: list[str]) -> Figure:
        runs = read_runs(words, 2, why="one for each loss")
        names = titles(runs)
        alike = [run for run in runs if loss_of(run) == most_common(runs)]
        both = len(alike) > 1
        figure, axes = canvas(1, 2 if both else 1, 11.0 if both else 6.5, 1.8 + 0.45 * max(5, len(runs)))
        left = axes[0, 0]
        places = np.arange(len(runs))
        for shift, key, word, style in (
            (-0.2, "total", "all labels", {"color": BLUE}),
            (0.2, "mean_of_groups", "mean of head, medium, tail", {"color": ORANGE, **HATCHED}),
        ):
            found = [run.final["mAP"][key] for run in runs]
            values = [np.nan if value is None else 100 * value for value in found]
            bars = left.barh(places + shift, values, 0.38, label=word, **style)
            left.bar_label(bars, fmt="%.1f", fontsize=8, padding=2)
        left.set_yticks(places, [wrapped(name) for name in names], fontsize=9)
        left.invert_yaxis()
        left.set_xlabel("mAP on test, %", fontsize=10)
        left.margins(x=0.12)
        grid(left, "x")
        legend_above(left, 2)
        if not both:
            return figure
        right = axes[0, 1]
        for number, (run, name) in enumerate(zip(runs, names, strict=True)):
            if run in alike:
                steps, loss = ([row[key] for row in run.epochs] for key in ("step", "loss"))
                style = {"color": COLOURS[number % 8], "marker": MARKERS[number % 8], "markersize": 5}
                right.plot(steps, loss, markevery=max(1, len(steps) // 6), label=wrapped(name), **style)
        right.set_xlabel("iteration", fontsize=10)
        right.set_ylabel("training loss, mean of the epoch", fontsize=10)
        right.legend(frameon=False, fontsize=9)
        grid(right)
        return figure


def wrapped(name: str) -> str:
    """A name of many settings in several short lines."""
    return fill(name, LINE)


def loss_of(run: Run) -> str:
    """The method, and the loss it stands on."""
    modified = setting(run, "method.modification")
    return f"{run.method} {setting(run, 'method.base')} {modified}"


def most_common(runs: list[Run]) -> str:
    return Counter(loss_of(run) for run in runs).most_common(1)[0][0]
