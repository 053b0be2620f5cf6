"""Missing labels that training took for positives: how many were right, and of which labels.

Figure 5 of COMIC. Left: right (true positive) and wrong (false positive) corrections of each epoch; the truth is known
where labels were hidden on purpose. Right: the mean epoch's corrections of each label, beside its observed positives.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from raretag.figures.parts.canvas import (
    GREEN,
    GREY,
    HATCHED,
    RED,
    canvas,
    grid,
    label_axis,
    mark_groups,
    titled,
    width_for,
)
from raretag.figures.parts.runs import Run, of_each_epoch, read_runs

Counts = NDArray[np.int64]  # [epochs, labels]


class Corrections:
    def draw(self, words: list[str]) -> Figure:
        (run,) = read_runs(words, 1, 1, "one of comic or reflective_correction")
        wanted = "expected a run of comic or reflective_correction"
        corrected: Counts = np.array(of_each_epoch(run, "by_label", "corrected", wanted=wanted))
        wanted = "the truth must be known: hide labels with data.hide"
        right: Counts = np.array(of_each_epoch(run, "by_label", "corrected_rightly", wanted=wanted))
        figure, axes = canvas(1, 2, width_for(len(run.labels), 11.0), 4.4, width_ratios=[2, 3])
        over_epochs(axes[0, 0], run, right, corrected - right)
        over_labels(axes[0, 1], run, right, corrected - right)
        handles, names = axes[0, 1].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper left", frameon=False, ncols=3, fontsize=9)
        return figure


def over_epochs(axes: Axes, run: Run, right: Counts, wrong: Counts) -> None:
    epochs = np.arange(1, len(right) + 1)
    axes.bar(epochs, right.sum(1), color=GREEN)
    axes.bar(epochs, wrong.sum(1), bottom=right.sum(1), color=RED, **HATCHED)
    axes.set_xlim(0.4, len(right) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch", fontsize=10)
    axes.set_ylabel("corrected labels", fontsize=10)
    number = int(right.sum() + wrong.sum())
    titled(axes, f"{run.data}: {100 * right.sum() / max(number, 1):.0f} % of {number:,} corrections are right")
    grid(axes)


def over_labels(axes: Axes, run: Run, right: Counts, wrong: Counts) -> None:
    order, places = run.order, np.arange(len(run.labels))
    axes.bar(places - 0.28, np.array(run.positives)[order], 0.28, color=GREY, label="observed positives")
    axes.bar(places, right.mean(0)[order], 0.28, color=GREEN, label="right corrections (TP)")
    axes.bar(places + 0.28, wrong.mean(0)[order], 0.28, color=RED, label="wrong corrections (FP)", **HATCHED)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("number; corrections: mean of an epoch", fontsize=10)
    label_axis(axes, [run.labels[label] for label in order])
    mark_groups(axes, run.group_sizes)
    grid(axes)
