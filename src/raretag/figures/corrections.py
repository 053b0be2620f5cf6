"""Missing labels that training took to be there: how many were right, and of which labels.

Figure 5 of COMIC. Left: right (true positive) and wrong (false positive) corrections of each epoch; the truth is known
where labels were hidden on purpose. Right: the corrections of all epochs by label, beside the positives of the data.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from raretag.figures.parts.canvas import (
    GREEN,
    GREY,
    RED,
    canvas,
    grid,
    label_axis,
    mark_groups,
    titled,
    width_for,
)
from raretag.figures.parts.runs import of_each_epoch, read_runs

PAPERS = {"comic-5": {}}


class Corrections:
    def draw(self, words: list[str]) -> Figure:
        (run,) = read_runs(words, 1, 1, "one of comic or reflective_correction")
        wanted = "expected a run of comic or reflective_correction"
        corrected = np.array(of_each_epoch(run, "label_signs", "corrected", wanted=wanted))  # [E, C]
        wanted = "the truth of hidden labels must be known: hide them with data.hide"
        right = np.array(of_each_epoch(run, "label_signs", "corrected_rightly", wanted=wanted))
        order = run.order
        figure, axes = canvas(1, 2, width_for(len(order), 11.0), 4.4, width_ratios=[2, 3])
        left, by_label = axes[0]
        epochs = np.arange(1, len(corrected) + 1)
        left.bar(epochs, right.sum(1), color=GREEN, label="right (TP)")
        left.bar(
            epochs,
            (corrected - right).sum(1),
            bottom=right.sum(1),
            color=RED,
            hatch="//",
            edgecolor="white",
            linewidth=0,
            label="wrong (FP)",
        )
        left.set_xlabel("epoch", fontsize=10)
        left.set_ylabel("corrected labels", fontsize=10)
        left.xaxis.get_major_locator().set_params(integer=True)
        total = max(int(corrected.sum()), 1)
        titled(left, f"{run.data}: {100 * right.sum() / total:.0f} % of {corrected.sum():,} corrections are right")
        places = np.arange(len(order))
        by_label.bar(places - 0.2, np.array(run.positives)[order], 0.4, color=GREY, label="observed positives")
        share = corrected.sum(0) / len(corrected)
        by_label.bar(places + 0.2, (right.sum(0) / len(corrected))[order], 0.4, color=GREEN)
        by_label.bar(
            places + 0.2,
            (share - right.sum(0) / len(corrected))[order],
            0.4,
            bottom=(right.sum(0) / len(corrected))[order],
            color=RED,
            hatch="//",
            edgecolor="white",
            linewidth=0,
        )
        by_label.set_yscale("symlog", linthresh=1)
        by_label.set_ylim(bottom=0)
        by_label.set_ylabel("labels; corrections: mean of an epoch", fontsize=10)
        label_axis(by_label, [run.labels[label] for label in order])
        mark_groups(by_label, run.group_sizes)
        for one in (left, by_label):
            grid(one)
        handles, names = zip(
            *(pair for one in (left, by_label) for pair in zip(*one.get_legend_handles_labels(), strict=True)),
            strict=True,
        )
        figure.legend(handles, names, loc="outside upper left", frameon=False, ncols=3, fontsize=9)
        return figure
