"""Histograms of probabilities, and the labels at both ends of the frequencies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.figures.parts.runs import Run


def counts(p: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """How many values are in each bin of width 1/bins; the last one is closed. [bins]"""
    return np.bincount(np.minimum((p * bins).astype(int), bins - 1), minlength=bins)


def share(p: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """P^ of PLM (4)."""
    return counts(p, bins) / max(len(p), 1)


def extremes(run: Run, sides: list[NDArray[np.bool_]], number: int) -> tuple[list[int], list[int]]:
    """The most frequent and the rarest labels of training, of those that can be drawn; no label is both."""
    drawable = [label for label in run.order if all(side[:, label].any() for side in sides)]
    number = min(number, len(drawable) // 2)
    if not number:
        raise UserError(f"'{run.folder}' has fewer than two labels with positives and negatives, so nothing to compare")
    return drawable[:number], drawable[-number:]


def check_bins(drawing: str, bins: int, labels: int) -> None:
    if bins < 2 or labels < 1:
        raise UserError(f"{drawing} needs bins >= 2 and labels >= 1, got bins={bins}, labels={labels}")
