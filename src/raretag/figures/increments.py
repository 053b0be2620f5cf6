"""What each step of a method gives each label: the difference of average precision between a run and the one before.

Figure 6 of the DB paper, whose steps are plain training, class-aware sampling, re-balanced weights, the whole loss.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, RED, canvas, grid, label_axis, mark_groups, titled, width_for
from raretag.figures.parts.runs import read_runs, same_labels
from raretag.figures.parts.settings import titles

PAPERS = {"db-6": {"metric": "average_precision"}}
METRICS = ("average_precision", "f1", "precision", "recall")


class Increments:
    def __init__(self, *, metric: str = "average_precision") -> None:
        if metric not in METRICS:
            raise UserError(f"increments.metric is '{metric}'; expected one of {', '.join(METRICS)}")
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
