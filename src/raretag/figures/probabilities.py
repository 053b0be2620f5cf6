"""How likely frequent and rare labels are said to be, where they are there and where they are not.

Figure 1 of the PLM paper: each run is a row (the baseline first, as in the paper), positives are left and negatives
right. Bars are the mean over the most frequent (rarest) labels of each label's own histogram.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from raretag.figures.parts.bins import check_bins, extremes, share
from raretag.figures.parts.canvas import BLUE, HATCHED, ORANGE, canvas, grid, titled
from raretag.figures.parts.runs import read_runs, same_labels
from raretag.figures.parts.settings import titles

PAPERS = {"plm-1": {}}


class Probabilities:
    def __init__(
        self, *, bins: int = 10, labels: int = 3, split: Literal["train", "validation", "test"] = "test"
    ) -> None:
        check_bins("probabilities", bins, labels)
        self.bins, self.labels, self.split = bins, labels, split

    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import scored

        runs = read_runs(words, why="give the baseline and the method")
        same_labels(runs)
        figure, axes = canvas(len(runs), 2, 8.5, 0.9 + 2.3 * len(runs), sharey=True, sharex=True)
        middles = (np.arange(self.bins) + 0.5) / self.bins
        for row, (run, name) in enumerate(zip(runs, titles(runs), strict=True)):
            scores, *sides = scored(run, self.split)
            frequent, rare = extremes(run, sides, self.labels)
            for one, side, word in zip(axes[row], sides, ("positives", "negatives"), strict=True):
                for labels, shift, end, style in (
                    (frequent, -0.2, "most frequent", {"color": BLUE}),
                    (rare, 0.2, "rarest", {"color": ORANGE, **HATCHED}),
                ):
                    shares = np.mean([share(scores[side[:, label], label], self.bins) for label in labels], axis=0)
                    called = f"{end}: {', '.join(run.labels[label] for label in labels)}"
                    one.bar(middles + shift / self.bins, 100 * shares, 0.4 / self.bins, label=called, **style)
                titled(one, f"{name}: {word}")
                one.set_ylim(0, 104)
                one.set_xlim(0, 1)
                grid(one)
            axes[row, 0].set_ylabel("items of the label, %", fontsize=10)
        for one in axes[-1]:
            one.set_xlabel("predicted probability", fontsize=10)
        handles, called = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, called, loc="outside upper left", frameon=False, ncols=1, fontsize=9)
        return figure
