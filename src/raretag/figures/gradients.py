"""What a negative logit feels: its gradient under cross entropy, binary cross entropy and negative tolerance.

Figure 3 of the DB paper, from equations (6) and (7) alone. Left: under cross entropy a high positive logit takes the
gradient of a negative away. Middle: under binary cross entropy nothing does, so negatives sink for ever. Right:
tolerance with a scale lambda makes the gradient fall sharply below the threshold nu.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.figures.parts.canvas import COLOURS, MARKERS, canvas, grid, titled

Floats = NDArray[np.float64]


class Gradients:
    def __init__(self, *, scales: str = "1,2,5,10", positives: str = "0,2,4", nu: float = 0.0) -> None:
        try:
            self.scales, self.positives = ([float(word) for word in some.split(",")] for some in (scales, positives))
        except ValueError:
            raise UserError(f"gradients takes lists of numbers, got scales={scales}, positives={positives}") from None
        self.nu = nu

    def draw(self, words: list[str]) -> Figure:
        if words:
            raise UserError(f"this figure is drawn from formulas and takes no runs, got {len(words)}")
        z = np.linspace(-6.0, 6.0, 241)
        figure, axes = canvas(1, 3, 12.0, 3.7, sharey=True)
        one, two, three = axes[0]
        for number, positive in enumerate(self.positives):
            slope = np.exp(z) / (np.exp(z) + np.exp(positive))  # (6), two classes
            self.line(one, z, slope, number, f"positive logit {positive:g}")
        titled(one, "cross entropy: depends on the positive logit")
        self.line(two, z, 1 / (1 + np.exp(-z)), 0, "any positive logit")
        titled(two, "binary cross entropy: does not")
        for number, scale in enumerate(self.scales):
            self.line(three, z, 1 / (1 + np.exp(-scale * (z - self.nu))), number, f"lambda {scale:g}")  # (7)
        titled(three, f"negative-tolerant, nu = {self.nu:g}")
        for axis in (one, two, three):
            axis.set_xlabel("negative logit", fontsize=10)
            axis.legend(frameon=False, fontsize=9, loc="upper left")
            grid(axis)
        one.set_ylabel("gradient of its loss", fontsize=10)
        return figure

    def line(self, axes: Axes, z: Floats, slope: Floats, number: int, label: str) -> None:
        axes.plot(z, slope, color=COLOURS[number], marker=MARKERS[number], markevery=30, markersize=5, label=label)
