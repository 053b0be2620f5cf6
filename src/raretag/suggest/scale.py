r"""Scores of all labels on one scale: the log odds that an entry is marked.

Paper and code::

    z   out-of-fold logits [N, C], of any method, so on a scale of their own for each label
    t = a_c + b_c z,  sigma(t) = P(marked | z)

Platt scaling for each label, shrunk: a label with three positives cannot say much about its own slope, so slopes are
drawn to the mean slope of all labels. The order within a label stays that of its scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NEVER = -60.0  # the log odds of a label that nobody marked, of which nothing can be said
_WIDE, _SLOPE = 3.0, 0.3  # prior deviations of an intercept, and of a slope as a share of the mean slope
_LEAST = 1e-3  # a slope below 0 would turn the order of a label around


def on_one_scale(scores: Floats, marked: Bools, counted: Bools) -> Floats:
    """t [N, C]; `marked` is what is predicted, `counted` are the entries that it is learnt from."""
    spread = scores[counted].std() or 1.0 if counted.any() else 1.0
    z = np.clip((scores - (scores[counted].mean() if counted.any() else 0.0)) / spread, -30, 30)
    found = (marked & counted).sum(axis=0)
    ones = np.ones(scores.shape[1])
    free = _newton(z, marked, counted, ones, 2.0 * ones)
    mean = max(float(np.average(free[1], weights=np.maximum(found, 1e-9))), _LEAST)
    intercept, slope = _newton(z, marked, counted, mean * ones, _SLOPE * mean * ones)
    t = intercept + np.maximum(slope, _LEAST) * z
    t[:, found == 0] = NEVER
    return np.asarray(t)


def _newton(z: Floats, marked: Bools, counted: Bools, slope: Floats, deviation: Floats) -> Floats:
    """Intercepts and slopes [2, C] with the highest posterior; the slope's prior is normal."""
    share = ((marked & counted).sum(axis=0) + 0.5) / (counted.sum(axis=0) + 1.0)
    start = np.log(share / (1 - share))  # of a label whose scores say nothing
    w = np.stack([start, slope])
    target, weight = (marked & counted).astype(np.float64), counted.astype(np.float64)
    for _ in range(50):
        p = expit(w[0] + w[1] * z)
        residual, variance = weight * p - target, weight * p * (1 - p)
        g0 = residual.sum(0) + (w[0] - start) / _WIDE**2
        g1 = (residual * z).sum(0) + (w[1] - slope) / deviation**2
        h00 = variance.sum(0) + 1 / _WIDE**2
        h01 = (variance * z).sum(0)
        h11 = (variance * z * z).sum(0) + 1 / deviation**2
        determinant = h00 * h11 - h01**2
        step = np.stack([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0]) / determinant
        w -= step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(0), 1e-12))  # no leaps
        if np.abs(step).max() < 1e-7:
            break
    return w
