"""Sorting scores together with their labels, without indices.

numpy sorts rows of integers many times faster than torch sorts floats with their indices. So each score becomes an
integer that sorts as the score does, and the label rides along in the lowest bit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[np.int64]
Places = NDArray[np.int32]

UNKNOWN = np.int64(2**62)  # after every key; even, so that it is no positive
_ENTRIES_AT_ONCE = 2**18  # keeps a block and its sorted copy in the cache


def keys(scores: Tensor, observed: Tensor, positive: Tensor) -> Integers:
    """One key for each entry of [R, L]. Ascending keys are descending scores, and the lowest bit is `positive`.

    Equal scores have equal keys but for that bit, so negatives come first within a tie. Unknown entries come last.
    """
    image = _ranks(scores) if scores.dtype == torch.float64 else _bits(scores)
    key = image.astype(np.int64)
    key <<= 1
    key |= positive.cpu().numpy()
    key[~observed.cpu().numpy()] = UNKNOWN
    return key


def blocks(lines: int, length: int) -> Iterator[slice]:
    """Cut [lines, length] into groups of lines of bounded size."""
    step = max(1, _ENTRIES_AT_ONCE // max(1, length))
    return (slice(start, start + step) for start in range(0, lines, step))


def _bits(scores: Tensor) -> NDArray[np.int32]:
    """float32 (or less) as int32 in descending order."""
    bits = (scores.detach().cpu().float() + 0.0).contiguous().numpy().view(np.int32)  # + 0.0 turns -0.0 into 0.0
    # Positive floats sort as their bits do; in negative ones all bits but the sign run backwards.
    descending: NDArray[np.int32] = ~(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    return descending


def _ranks(scores: Tensor) -> Integers:
    """Dense ranks in descending order; for float64, whose bits leave no room for a label."""
    values = scores.detach().cpu().contiguous().numpy()  # [R, L]
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)
    rank = np.zeros(values.shape, dtype=np.int64)
    np.cumsum(ascending[:, 1:] != ascending[:, :-1], axis=1, out=rank[:, 1:])
    descending = np.empty_like(rank)
    np.put_along_axis(descending, order, -rank, axis=1)
    return descending
