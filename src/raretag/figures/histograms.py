"""The histograms that PLM compares: ground truth against predictions, positives above negatives.

Figures 5 and 6 (an example of ten items, without a run) and 7 (labels of a run, on its training items) of the PLM
paper; figures 1 to 3 of its published supplement.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from raretag.figures.parts.bins import check_bins, counts, extremes
from raretag.figures.parts.canvas import BLUE, GREEN, ORANGE, canvas, grid, titled
from raretag.figures.parts.runs import read_runs

PAPERS = {
    "plm-5": {"example": True, "values": "count", "bins": 4},
    "plm-6": {"example": True, "values": "share", "bins": 4},
    "plm-7": {"values": "share", "bins": 10},
}
# Section B of the paper: what a network says of five items that have the label, and of five that do not.
EXAMPLE = ((0.2, 0.6, 0.95, 0.99, 0.45), (0.1, 0.15, 0.8, 0.4, 0.3))

Column = tuple[str, str, list[NDArray[np.float64]]]  # title, colour, values of positives and of negatives


class Histograms:
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
        said = [np.array(side) for side in EXAMPLE]
        return [truth(said), ("predictions", BLUE, said)]

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


def truth(said: list[NDArray[np.float64]]) -> Column:
    """What a perfect network would say of the same items."""
    return "ground truth", GREEN, [np.ones(len(said[0])), np.zeros(len(said[1]))]
