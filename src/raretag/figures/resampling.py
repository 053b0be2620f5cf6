"""How often each label is seen before and after class-aware sampling, and for whose sake.

Figure 2 of the DB paper. Right: an epoch as the sampler draws it. An item drawn for one label brings its other labels
with it; the line is what theory expects (eq. 1). Takes a run or the name of a data set.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from raretag.core import catalogue
from raretag.core.errors import UserError
from raretag.figures.parts.canvas import (
    BLUE,
    ORANGE,
    canvas,
    grid,
    label_axis,
    mark_groups,
    titled,
    width_for,
)

PAPERS = {"db-2": {}}


class Resampling:
    def __init__(self, *, epoch: int = 0) -> None:
        self.epoch = epoch

    def draw(self, words: list[str]) -> Figure:
        from raretag.engine.sources import positives_of
        from raretag.figures.parts.scores import training_labels

        if len(words) != 1:
            raise UserError(f"this figure needs one run or the name of one data set, got {len(words)}")
        title, store, groups = training_labels(words[0])
        positives = positives_of(store)
        sampler = catalogue.build("sampling", "class_aware", {}, positives=positives, seed=0)
        drawn = sampler.epoch(self.epoch).numpy()
        seen = np.asarray(positives[drawn].sum(0)).ravel()  # [C] items of the epoch that have the label
        before = np.asarray(positives.sum(0)).ravel()
        own, expected = for_its_own_sake(before, len(drawn)), len(drawn) * expected_share(store_pairs(store), before)
        order = np.argsort(-before, kind="stable")
        names = [store.names[label] for label in order]
        figure, axes = canvas(1, 2, width_for(2 * len(names), 11.0), 4.2)
        places = np.arange(len(order))
        left, right = axes[0]
        left.bar(places, before[order], color=BLUE)
        titled(left, f"{title}: {len(store):,} training items")
        right.bar(places, np.minimum(own, seen)[order], color=BLUE, label="drawn for this label")
        right.bar(
            places,
            np.maximum(seen - own, 0)[order],
            bottom=np.minimum(own, seen)[order],
            color=ORANGE,
            hatch="//",
            edgecolor="white",
            linewidth=0,
            label="come along with another",
        )
        right.plot(
            places,
            expected[order],
            color="black",
            marker="." if len(names) <= 40 else None,
            linewidth=1,
            label="expected",
        )
        titled(right, f"class-aware sampling: {len(drawn):,} draws")
        for one in (left, right):
            label_axis(one, names)
            mark_groups(one, {name: len(members) for name, members in groups.items()}, named=one is left and False)
            one.set_ylabel("items with the label", fontsize=10)
            grid(one)
        right.legend(frameon=False, fontsize=9, loc="upper right")
        return figure


def for_its_own_sake(before: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    """Every label that has a positive is drawn equally often. [C]"""
    return np.where(before > 0, draws / max(int((before > 0).sum()), 1), 0.0)


def store_pairs(store: object) -> NDArray[np.int64]:
    """n_ij [C, C]."""
    statistics = store.statistics(cooccurrence=True)  # type: ignore[attr-defined]
    if statistics.cooccurrence is None or statistics.cooccurrence.is_sparse:
        raise UserError("this figure counts pairs of labels, of which there are too many here: at most 4,096 labels")
    pairs: NDArray[np.int64] = statistics.cooccurrence.numpy()
    return pairs


def expected_share(pairs: NDArray[np.int64], before: NDArray[np.int64]) -> NDArray[np.float64]:
    """(1): p_hat_i = 1/C sum_j n_ij / n_j. [C]"""
    there = before > 0
    share: NDArray[np.float64] = (pairs[:, there] / before[there]).mean(1)
    return share
