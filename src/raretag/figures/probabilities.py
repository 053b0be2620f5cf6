"""Histograms of predicted probabilities, of frequent and of rare labels: figures 1 and 5 to 7 of the PLM paper."""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, GREEN, HATCHED, ORANGE, canvas, grid, titled
from raretag.figures.parts.runs import Run, read_runs, same_labels, titles

# Section B of the paper: probabilities for five items that have the label, and for five that do not.
EXAMPLE = ((0.2, 0.6, 0.95, 0.99, 0.45), (0.1, 0.15, 0.8, 0.4, 0.3))

Column = tuple[str, str, list[NDArray[np.float64]]]  # title, colour, values of positives and of negatives


class Probabilities:
    """Predicted probabilities of frequent and rare labels, on items that have them and on items that do not.

    Figure 1 of the PLM paper: each run is a row (the baseline first, as in the paper), positives are left and negatives
    right. Bars are the mean over the most frequent (rarest) labels of each label's own histogram.
    """

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
                    name_of_bars = f"{end}: {', '.join(run.labels[label] for label in labels)}"
                    one.bar(middles + shift / self.bins, 100 * shares, 0.4 / self.bins, label=name_of_bars, **style)
                titled(one, f"{name}: {word}")
                one.set_ylim(0, 104)
                one.set_xlim(0, 1)
                grid(one)
            axes[row, 0].set_ylabel("items of the label, %", fontsize=10)
        for one in axes[-1]:
            one.set_xlabel("predicted probability", fontsize=10)
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", frameon=False, ncols=1, fontsize=9)
        return figure


class Histograms:
    """The histograms that PLM compares: ground truth against predictions, positives above negatives.

    Figures 5 and 6 (an example of ten items, without a run) and 7 (labels of a run, on its training items) of the PLM
    paper; figures 1 to 3 of its published supplement.

    >>> len(Histograms(example=True, bins=4).draw([]).axes)
    4
    """

    def __init__(
        self,
        *,
        example: bool = False,
        values: Literal["count", "share"] = "share",
        bins: int = 10,
        labels: int = 2,
        split: Literal["train", "validation", "test"] = "train",
    ) -> None:
        check_bins("histograms", bins, labels)
        self.example, self.values, self.bins, self.labels, self.split = example, values, bins, labels, split

    def draw(self, words: list[str]) -> Figure:
        columns = self.of_example() if self.example and not words else self.of_run(words)
        figure, axes = canvas(2, len(columns), 1.2 + 2.0 * len(columns), 4.6, sharex=True, sharey=True)
        middles = (np.arange(self.bins) + 0.5) / self.bins
        for column, (title, colour, sides) in enumerate(columns):
            for row, values in enumerate(sides):
                height = counts(values, self.bins)
                shown = height if self.values == "count" else height / max(len(values), 1)
                one = axes[row, column]
                one.bar(middles, shown, 0.9 / self.bins, color=colour)
                one.set_xlim(0, 1)
                one.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
                grid(one)
            titled(axes[0, column], title)
            axes[1, column].set_xlabel("probability", fontsize=10)
        for row, side in enumerate(("positives", "negatives")):
            axes[row, 0].set_ylabel(f"{side}: {'items' if self.values == 'count' else 'share of items'}", fontsize=10)
        return figure

    def of_example(self) -> list[Column]:
        sides = [np.array(side) for side in EXAMPLE]
        return [truth(sides), ("predictions", BLUE, sides)]

    def of_run(self, words: list[str]) -> list[Column]:
        from raretag.figures.parts.scores import scored

        (run,) = read_runs(words, 1, 1, "its labels are the columns")
        scores, *sides = scored(run, self.split)
        frequent, rare = extremes(run, sides, self.labels)
        chosen = [(label, BLUE, "head") for label in frequent] + [(label, ORANGE, "tail") for label in rare]
        found: list[Column] = [
            (f"{word}: {run.labels[label]}", colour, [scores[side[:, label], label] for side in sides])
            for label, colour, word in chosen
        ]
        return [truth(found[0][2]), *found]


def truth(sides: list[NDArray[np.float64]]) -> Column:
    """What a perfect network would predict for the same items."""
    return "ground truth", GREEN, [np.ones(len(sides[0])), np.zeros(len(sides[1]))]


def counts(p: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """How many values are in each bin of width 1/bins; the last one is closed. [bins]"""
    return np.bincount(np.minimum((p * bins).astype(int), bins - 1), minlength=bins)


def share(p: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """P^ of PLM (4)."""
    return counts(p, bins) / max(len(p), 1)


def extremes(run: Run, sides: list[NDArray[np.bool_]], number: int) -> tuple[list[int], list[int]]:
    """The most frequent and the rarest labels of training, of those that can be drawn; no label is both."""
    drawable = [label for label in run.order if all(side[:, label].any() for side in sides)]
    number = min(number, len(drawable) // 2)
    if not number:
        raise UserError(f"'{run.folder}' has fewer than two labels with positives and negatives, so nothing to compare")
    return drawable[:number], drawable[-number:]


def check_bins(drawing: str, bins: int, labels: int) -> None:
    if bins < 2 or labels < 1:
        raise UserError(f"{drawing} needs bins >= 2 and labels >= 1, got bins={bins}, labels={labels}")
