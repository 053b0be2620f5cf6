"""How partial label masking moves the ratio of positives to negatives of each label.

Figure 2 of the PLM paper. Epoch 0 is the ratio of the data; with many labels only the most frequent and
the rarest are shown.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import MARKERS, canvas, grid, legend_beside, titled
from raretag.figures.parts.runs import of_each_epoch, read_runs

ALL_UP_TO = 12  # lines that can be told apart


class Ratios:
    def __init__(self, *, labels: int = 4) -> None:
        if labels < 1:
            raise UserError(f"ratios.labels is how many labels to show at each end, 1 or more, got {labels}")
        self.labels = labels

    def draw(self, words: list[str]) -> Figure:
        (run,) = read_runs(words, 1, 1, "one of partial_label_masking")
        wanted = "expected a run of partial_label_masking"
        ratios = np.array(of_each_epoch(run, "by_label", "ratio", wanted=wanted))  # [E, C]
        start = run.record["method"]["learned"].get("ratio_of_data")
        if start is not None:
            ratios = np.vstack([start, ratios])
        first = 0 if start is not None else 1
        usable = [label for label in run.order if run.positives[label]]
        few = len(usable) <= max(ALL_UP_TO, 2 * self.labels)
        chosen = usable if few else [*usable[: self.labels], *usable[-self.labels :]]
        figure, axes = canvas(1, 1, 8.5, 4.4)
        one = axes[0, 0]
        for place, label in enumerate(chosen):
            colour = colormaps["viridis"](0.92 * place / max(len(chosen) - 1, 1))
            epochs = np.arange(len(ratios)) + first
            marker = MARKERS[place % len(MARKERS)]
            every = max(1, len(epochs) // 6)
            one.plot(
                epochs,
                ratios[:, label],
                color=colour,
                marker=marker,
                markevery=(place % every, every),
                markersize=5,
                label=f"{run.labels[label]} ({run.positives[label]:,})",
            )
        one.set_yscale("log")
        one.set_xlabel("epoch", fontsize=10)
        one.set_ylabel("ratio of positives to negatives", fontsize=10)
        one.xaxis.set_major_locator(MaxNLocator(integer=True))
        grid(one)
        titled(one, f"{run.data}, {run.method.replace('_', ' ')}")
        title = "label (training positives)" + ("" if few else f"\n{self.labels} most frequent, {self.labels} rarest")
        legend_beside(one, title=title, title_fontsize=9, alignment="left")
        return figure
