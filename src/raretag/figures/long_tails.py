"""How a long-tailed set is made and what it is tested on: figures 8 and 9 of the DB paper, of data sets by name."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from raretag.core.errors import UserError
from raretag.figures.class_aware import Counts, positives_per_label
from raretag.figures.parts.canvas import (
    BLUE,
    COLOURS,
    MARKERS,
    RED,
    canvas,
    grid,
    label_axis,
    mark_groups,
    titled,
    width_for,
)
from raretag.labels.longtail import pareto_reference, pareto_steps


class Construction:
    """Pareto curves of several powers, and how a subset of a data set grows along one of them, label by label.

    Figure 8 of the DB paper. Left: wanted items of each label. Right: how many items of each label are there after each
    turn, from the head to the tail; the last row is the set. A turn also takes items away again, and with them labels.
    """

    def __init__(self, *, largest: int = 1200, power: float = 6.0, powers: str = "2,4,6,8,12", seed: int = 0) -> None:
        self.largest, self.power, self.seed = largest, power, seed
        try:
            self.powers = [float(word) for word in powers.split(",")]
        except ValueError:
            raise UserError(f"construction.powers is a list of numbers such as 2,4,6, got '{powers}'") from None

    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import training_labels

        if len(words) != 1:
            raise UserError(f"this figure needs the name of one data set to draw from, got {len(words)}")
        title, store, _ = training_labels(words[0])
        figure, axes = canvas(1, 2, 12.0, 4.2)
        left, right = axes[0]
        for number, power in enumerate(self.powers):
            wanted = pareto_reference(store.labels, self.largest, power)
            style = {"color": COLOURS[number % 8], "marker": MARKERS[number % 8], "markevery": max(1, len(wanted) // 8)}
            left.plot(wanted, markersize=5, linewidth=1.4, label=f"power {power:g}", **style)
        left.set_yscale("log")
        left.set_xlabel("labels, from the most frequent to the rarest", fontsize=10)
        left.set_ylabel("wanted items", fontsize=10)
        left.legend(frameon=False, fontsize=9)
        titled(left, f"Pareto curves, largest {self.largest:,}")

        order: list[int] = []
        counts: list[Counts] = []
        inside = np.zeros(0, np.bool_)
        for label, inside in pareto_steps(store, self.largest, self.power, self.seed):
            order.append(label)
            counts.append(positives_per_label(store.positives[inside]))
        grown = np.stack(counts)[:, order]  # [turns, C]
        seen = np.where(grown > 0, grown, np.nan)  # a logarithm knows no zero
        image = right.imshow(seen, norm=LogNorm(1, grown.max()), aspect="auto", interpolation="nearest")
        right.set_xlabel("labels, in the order of their turns", fontsize=10)
        right.set_ylabel("turn", fontsize=10)
        figure.colorbar(image, ax=right, label="items with the label")
        titled(right, f"drawn from {title}, power {self.power:g}: {int(inside.sum()):,} items after the last turn")
        grid(left)
        return figure


class TestPart:
    """Positives of each label in the test part, in the order of the training part: is the test balanced?

    Figure 9 of the DB paper. A panel for each run or data set.
    """

    def draw(self, words: list[str]) -> Figure:
        from raretag.figures.parts.scores import labels_and_groups

        if not words:
            raise UserError("this figure needs runs or names of data sets, got none")
        found = [labels_and_groups(word) for word in words]
        widest = max(train.labels for _, train, _, _ in found)
        figure, axes = canvas(len(found), 1, width_for(widest, 9.0), 3.4 * len(found))
        for axis, (title, train, test, groups) in zip(axes.flat, found, strict=True):
            before, tested = positives_per_label(train.positives), positives_per_label(test.positives)
            order = np.argsort(-before, kind="stable")
            places = np.arange(len(order))
            axis.bar(places, tested[order], color=BLUE, label=f"test, {len(test):,} items")
            dot = "." if len(order) <= 40 else None
            axis.plot(
                places, before[order], color=RED, marker=dot, linewidth=1.2, label=f"training, {len(train):,} items"
            )
            axis.set_yscale("symlog", linthresh=10)
            axis.set_ylabel("positives", fontsize=10)
            axis.legend(frameon=False, fontsize=9, loc="upper right")
            label_axis(axis, [train.names[label] for label in order])
            mark_groups(axis, {name: len(members) for name, members in groups.items()})
            titled(axis, title, pad=20)
            grid(axis)
        return figure
