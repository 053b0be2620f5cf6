"""Label frequencies, as they are and as class-aware sampling makes them: figures 2 and 5 of the DB paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray
from scipy.sparse import csr_array

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.figures.parts.canvas import (
    BLUE,
    HATCHED,
    MOST_NAMED,
    ORANGE,
    RED,
    canvas,
    grid,
    label_axis,
    mark_groups,
    short,
    titled,
    width_for,
)

Counts = NDArray[np.int64]
DENSE_UP_TO = 4096  # labels


class Resampling:
    """How often each label occurs before and after class-aware sampling, and which draws bring it.

    Figure 2 of the DB paper. Right: an epoch as the sampler draws it. An item drawn for one label brings its other
    labels with it; the line is what theory expects (eq. 1). Takes a run or the name of a data set.
    """

    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import training_labels

        if len(words) != 1:
            raise UserError(f"this figure needs one run or the name of one data set, got {len(words)}")
        title, store, groups = training_labels(words[0])
        positives = store.positives
        drawn = registry.build("sampling", "class_aware", {}, positives=positives, seed=0).epoch(0).numpy()
        before, after = positives_per_label(positives), positives_per_label(positives[drawn])
        expected = len(drawn) * expected_share(pairs_of(positives))
        own = np.where(before > 0, len(drawn) / np.count_nonzero(before), 0.0)  # labels are drawn equally often
        own = np.minimum(own, after)

        order = np.argsort(-before, kind="stable")
        names = [store.names[label] for label in order]
        places = np.arange(len(order))
        figure, axes = canvas(1, 2, width_for(2 * len(names), 11.0), 4.2)
        left, right = axes[0]
        left.bar(places, before[order], color=BLUE)
        titled(left, f"{title}: {len(store):,} training items", pad=20)
        right.bar(places, own[order], color=BLUE, label="drawn for this label")
        along = (after - own)[order]
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


class Cooccurrence:
    """Which labels come together, and how uneven class-aware sampling stays because of it.

    Figure 5 of the DB paper. Above: p(column | row). Below: how frequent each label is after re-sampling, and the
    variance, over the items of a label, of how often they are drawn (mean 1). Takes a run or the name of a data set.
    """

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
        figure.colorbar(image, ax=heat, label="p(column | row)", location="top", shrink=0.5, aspect=30, pad=0.02)
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


def distribution(description: dict[str, Any], title: str) -> Figure:
    """How frequent each label is, as the data is and as class-aware sampling would make it (`raretag inspect`).

    `description` is what `raretag.labels.describe.describe` gives.
    """
    shares = description["distribution"]
    before, after = shares["before"], shares["after_class_aware"]
    few = len(before) <= 40
    figure, axes = canvas(1, 1, 9.0, 4.2 if few else 3.8)
    one: Axes = axes[0, 0]
    places = range(len(before))
    one.bar(places, before, color=BLUE, width=0.8 if few else 1.0, label="as the data is")
    if after is not None:
        after = [value or float("nan") for value in after]  # a logarithm knows no zero
        one.plot(places, after, "o" if few else "-", color=ORANGE, markersize=5, label="after class-aware sampling")
    one.set_yscale("log")
    one.set_ylabel("share of items with the label")
    one.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    one.yaxis.set_minor_formatter(NullFormatter())
    one.set_ylim(bottom=0.5 / max(description["items"], 1))  # half an item
    label_axis(one, shares["labels"] if few else [""] * len(before), named=few)
    mark_groups(one, description["groups"])
    one.legend(frameon=False, loc="upper right")
    one.set_title(title, loc="left", fontsize=11, pad=20)
    return figure


def pairs_of(positives: csr_array) -> Counts:
    """n_ij [C, C] of positives [N, C]."""
    if positives.shape[1] > DENSE_UP_TO:
        raise UserError(
            f"this figure counts pairs of labels: {positives.shape[1]:,} labels are too many, at most {DENSE_UP_TO:,}"
        )
    wide = positives.astype(np.int64)
    pairs: Counts = (wide.T @ wide).toarray()
    return pairs


def positives_per_label(positives: csr_array) -> Counts:
    """n_i [C]."""
    return np.asarray(positives.sum(0, dtype=np.int64)).ravel()


def expected_share(pairs: Counts) -> NDArray[np.float64]:
    """DB (1): p_hat_i = 1/C sum_j n_ij / n_j, over labels that have a positive. [C]"""
    number = pairs.diagonal()
    there = number > 0
    found: NDArray[np.float64] = (pairs[:, there] / number[there]).mean(1)
    return found


def variances(positives: csr_array) -> NDArray[np.float64]:
    """Of P^I = sum over an item's labels of 1 / n_j, scaled to mean 1 over the items of each label. [C]"""
    number = positives_per_label(positives)
    times = positives @ np.where(number > 0, 1.0 / np.maximum(number, 1), 0.0)  # C P^I [N]
    mean = np.where(number > 0, (positives.T @ times) / np.maximum(number, 1), 1.0)
    square = (positives.T @ times**2) / np.maximum(number, 1)
    return np.where(number > 0, square / mean**2 - 1.0, np.nan)
