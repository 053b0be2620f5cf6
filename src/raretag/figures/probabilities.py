"""How likely frequent and rare labels are said to be, where they are there and where they are not.

Figure 1 of the PLM paper: each run is a row (the baseline first, as in the paper), positives are left and negatives
right. Bars are the mean over the most frequent (rarest) labels of each label's own histogram.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, ORANGE, canvas, grid, titled
from raretag.figures.parts.runs import Run, read_runs
from raretag.figures.parts.settings import titles

PAPERS = {"plm-1": {}}


class Probabilities:
    def __init__(
        self, *, bins: int = 10, labels: int = 3, split: Literal["train", "validation", "test"] = "test"
    ) -> None:
        if bins < 2 or labels < 1:
            raise UserError(f"probabilities needs bins >= 2 and labels >= 1, got bins={bins}, labels={labels}")
        self.bins, self.labels, self.split = bins, labels, split

    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import scored

        runs = read_runs(words, why="give the baseline and the method")
        figure, axes = canvas(len(runs), 2, 8.5, 0.9 + 2.3 * len(runs), sharey=True, sharex=True)
        middles = (np.arange(self.bins) + 0.5) / self.bins
        for row, (run, name) in enumerate(zip(runs, titles(runs), strict=True)):
            scores, *sides = scored(run, self.split)
            frequent, rare = extremes(run, sides, self.labels)
            for column, side in enumerate(sides):
                one = axes[row, column]
                for labels, colour, hatch, shift, word in (
                    (frequent, BLUE, "", -0.2, "most frequent"),
                    (rare, ORANGE, "//", 0.2, "rarest"),
                ):
                    shares = np.mean([share(scores[side[:, label], label], self.bins) for label in labels], axis=0)
                    called = f"{word}: {', '.join(run.labels[label] for label in labels)}"
                    one.bar(
                        middles + shift / self.bins,
                        100 * shares,
                        0.4 / self.bins,
                        color=colour,
                        hatch=hatch,
                        edgecolor="white",
                        linewidth=0.4,
                        label=called,
                    )
                titled(one, f"{name}: {('positives', 'negatives')[column]}")
                one.set_ylim(0, 100)
                one.set_xlim(0, 1)
                grid(one)
            axes[row, 0].set_ylabel("items of the label, %", fontsize=10)
        for one in axes[-1]:
            one.set_xlabel("predicted probability", fontsize=10)
        handles, called = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, called, loc="outside upper left", frameon=False, ncols=1, fontsize=9)
        return figure


def extremes(run: Run, sides: list[NDArray[np.bool_]], number: int) -> tuple[list[int], list[int]]:
    """The most frequent and the rarest labels of training, of those that can be drawn; no label is both."""
    drawable = [label for label in run.order if all(side[:, label].any() for side in sides)]
    number = min(number, len(drawable) // 2)
    if not number:
        raise UserError(f"'{run.folder}' has fewer than two labels with positives and negatives, so nothing to compare")
    return drawable[:number], drawable[-number:]


def share(p: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """P^ of PLM (4): the share of the values in each bin of width 1/bins, the last one closed. [bins]"""
    return counts(p, bins) / max(len(p), 1)


def counts(p: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    return np.bincount(np.minimum((p * bins).astype(int), bins - 1), minlength=bins)
