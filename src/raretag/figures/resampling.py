"""How often each label is seen before and after class-aware sampling, and for whose sake.

Figure 2 of the DB paper. Right: an epoch as the sampler draws it. An item drawn for one label brings its other labels
with it; the line is what theory expects (eq. 1). Takes a run or the name of a data set.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raretag.core import registry as registry
from raretag.core.errors import UserError
from raretag.figures.parts.canvas import BLUE, HATCHED, ORANGE, canvas, grid, label_axis, mark_groups, titled, width_for
from raretag.figures.parts.pairs import expected_share, pairs_of, positives_per_label

PAPERS = {"db-2": {}}


class Resampling:
    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import training_labels

        if len(words) != 1:
            raise UserError(f"this figure needs one run or the name of one data set, got {len(words)}")
        title, store, groups = training_labels(words[0])
        positives = store.positives
        drawn = registry.build("sampling", "class_aware", {}, positives=positives, seed=0).epoch(0).numpy()
        before, seen = positives_per_label(positives), positives_per_label(positives[drawn])
        expected = len(drawn) * expected_share(pairs_of(positives))
        own = np.where(before > 0, len(drawn) / np.count_nonzero(before), 0.0)  # labels are drawn equally often
        own = np.minimum(own, seen)

        order = np.argsort(-before, kind="stable")
        names = [store.names[label] for label in order]
        places = np.arange(len(order))
        figure, axes = canvas(1, 2, width_for(2 * len(names), 11.0), 4.2)
        left, right = axes[0]
        left.bar(places, before[order], color=BLUE)
        titled(left, f"{title}: {len(store):,} training items", pad=20)
        right.bar(places, own[order], color=BLUE, label="drawn for this label")
        along = (seen - own)[order]
        right.bar(places, along, bottom=own[order], color=ORANGE, label="come along with another", **HATCHED)
        dot = "." if len(names) <= 40 else None
        right.plot(places, expected[order], color="black", marker=dot, linewidth=1, label="expected")
        titled(right, f"class-aware sampling: {len(drawn):,} draws", pad=20)
        for one in (left, right):
            label_axis(one, names)
            mark_groups(one, {name: len(members) for name, members in groups.items()})
            one.set_ylabel("items with the label", fontsize=10)
            grid(one)
        right.legend(framealpha=1.0, edgecolor="none", fontsize=9, loc="upper right")  # over the rare labels
        return figure
