"""Labels that come together, and what class-aware sampling makes of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from raretag.core.errors import UserError

Counts = NDArray[np.int64]
DENSE_UP_TO = 4096  # labels


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
