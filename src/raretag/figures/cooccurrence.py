"""Which labels come together, and how uneven class-aware sampling stays because of it.

Figure 5 of the DB paper. Above: p(column | row). Below: how frequent each label is after re-sampling, and the variance,
over the items of a label, of how often they are drawn (mean 1). Takes a run or the name of a data set.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse import csr_array

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, MOST_NAMED, RED, canvas, grid, label_axis, short, titled
from raretag.figures.resampling import expected_share, store_pairs

PAPERS = {"db-5": {}}


class Cooccurrence:
    def __init__(self, *, annotate: bool = False) -> None:
        self.annotate = annotate

    def draw(self, words: list[str]) -> Figure:
        from raretag.engine.sources import positives_of
        from raretag.figures.parts.scores import training_labels

        if len(words) != 1:
            raise UserError(f"this figure needs one run or the name of one data set, got {len(words)}")
        title, store, _ = training_labels(words[0])
        positives = positives_of(store)
        before = np.asarray(positives.sum(0)).ravel()
        pairs = store_pairs(store)
        order = np.argsort(-before, kind="stable")
        order = order[before[order] > 0]  # p(.|j) of a label that is never there does not exist
        conditional = (pairs / np.maximum(before, 1)).T[np.ix_(order, order)]  # [j, i] = n_ij / n_j
        names = [store.names[label] for label in order]
        side = max(6.0, min(14.0, 3.0 + 0.2 * len(names)))
        figure, axes = canvas(2, 1, side, side * 1.15, height_ratios=[3, 1], sharex=True)
        heat, below = axes[:, 0]
        image = heat.imshow(conditional, cmap="cividis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=heat, label="p(column | row)", shrink=0.8)
        heat.set_yticks(
            *((range(len(names)), [short(name) for name in names]) if len(names) <= MOST_NAMED else ([],)),
            fontsize=9 if len(names) <= 40 else 6,
        )
        titled(heat, f"{title}: {len(store):,} training items")
        if self.annotate:
            for row, column in np.argwhere(conditional >= 0.05):
                value = conditional[row, column]
                heat.text(
                    column,
                    row,
                    f"{100 * value:.0f}",
                    ha="center",
                    va="center",
                    fontsize=6,
                    color="black" if value > 0.5 else "white",
                )
        places = np.arange(len(names))
        below.bar(places, 100 * expected_share(pairs, before)[order], color=BLUE)
        below.set_ylabel("share after class-\naware sampling, %", fontsize=10, color=BLUE)
        grid(below)
        uneven = below.twinx()
        uneven.plot(places, variances(positives, before)[order], color=RED, marker="o", markersize=4, linewidth=1.2)
        uneven.set_ylabel("variance of draws\nwithin the label", fontsize=10, color=RED)
        uneven.set_ylim(bottom=0)
        uneven.spines["top"].set_visible(False)
        label_axis(below, names)
        heat.tick_params(labelbottom=False)
        return figure


def variances(positives: csr_array, before: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of P^I = sum over an item's labels of 1 / n_j, scaled to mean 1 over the items of each label. [C]"""
    rarity = np.where(before > 0, 1.0 / np.maximum(before, 1), 0.0)
    times = positives @ rarity  # C P^I [N]
    number = np.maximum(before, 1)
    mean = (positives.T @ times) / number
    square = (positives.T @ times**2) / number
    return np.where(before > 0, square / np.maximum(mean, 1e-300) ** 2 - 1.0, np.nan)
