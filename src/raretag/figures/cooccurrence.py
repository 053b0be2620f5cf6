"""Which labels come together, and how uneven class-aware sampling stays because of it.

Figure 5 of the DB paper. Above: p(column | row). Below: how frequent each label is after re-sampling, and the variance,
over the items of a label, of how often they are drawn (mean 1). Takes a run or the name of a data set.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, MOST_NAMED, RED, canvas, grid, label_axis, short
from raretag.figures.parts.pairs import expected_share, pairs_of, positives_per_label, variances

PAPERS = {"db-5": {}}


class Cooccurrence:
    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import training_labels

        if len(words) != 1:
            raise UserError(f"this figure needs one run or the name of one data set, got {len(words)}")
        title, store, _ = training_labels(words[0])
        positives = store.positives
        before, pairs = positives_per_label(positives), pairs_of(positives)
        order = np.argsort(-before, kind="stable")
        order = order[before[order] > 0]  # p(.|j) of a label that is never there does not exist
        conditional = pairs[np.ix_(order, order)] / before[order][:, None]  # [j, i] = n_ij / n_j
        names = [store.names[label] for label in order]
        places = np.arange(len(names))

        side = max(6.0, min(14.0, 3.0 + 0.2 * len(names)))
        figure, axes = canvas(2, 1, side, side * 1.15, height_ratios=[3, 1], sharex=True)
        heat, below = axes[:, 0]
        figure.suptitle(f"{title}: {len(store):,} training items", fontsize=11)
        image = heat.imshow(conditional, cmap="cividis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        bar = {"location": "top", "shrink": 0.5, "aspect": 30, "pad": 0.02}
        figure.colorbar(image, ax=heat, label="p(column | row)", **bar)
        if len(names) <= MOST_NAMED:
            heat.set_yticks(places, [short(name) for name in names], fontsize=9 if len(names) <= 40 else 6)
        below.bar(places, 100 * expected_share(pairs)[order], color=BLUE)
        below.set_ylabel("share after class-\naware sampling, %", fontsize=10, color=BLUE)
        grid(below)
        uneven = below.twinx()
        uneven.plot(places, variances(positives)[order], color=RED, marker="o", markersize=4, linewidth=1.2)
        uneven.set_ylabel("variance of draws\nwithin the label", fontsize=10, color=RED)
        uneven.set_ylim(bottom=0)
        uneven.spines["top"].set_visible(False)
        label_axis(below, names)
        below.set_xlim(-0.5, len(names) - 0.5)
        heat.tick_params(labelbottom=False)
        return figure
