r"""Sums of precision at positives, for many classes at once.

The precision at a positive is the number of positives at or above its score divided by the number of observed items
there. So sort the scores of a class without labels or indices, which numpy does with vector instructions, and search
the positives, which are few, among them. Nothing is gathered; floats compare as floats, so that ties, -0.0 and
infinities need no care; and an unknown item is a NaN, which stands behind everything.

float64 is sorted as float32, at half the cost: rounding may make equals of two scores but never swaps them. A positive
that then has an equal is counted again with what was not rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.numerics import in_full_precision

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]

_FEW = 32  # counting the scores above so many positives costs less than sorting them all


def precision_sums(scores: Tensor, observed: Tensor | None, positive: Tensor) -> Tensor:
    """[L] from [N, L]: the precision at each positive, ties together, summed. `observed` is None if everything was."""
    items, lines = scores.shape
    values = in_full_precision(scores).contiguous()
    ascending = _ascending(values.float(), observed)  # [L, N] float32
    known = np.full(lines, items) if observed is None else observed.sum(0).numpy()
    line, wanted = _by_line(values.numpy(), positive.numpy())
    ends = np.searchsorted(line, np.arange(lines + 1))
    above = np.empty(len(line), dtype=np.int64)  # of each positive, best first: observed items at or above
    for one in np.flatnonzero(np.diff(ends)):
        mine = wanted[ends[one] : ends[one + 1]]
        mine.sort()
        below = np.searchsorted(ascending[one], rounded := mine.astype(np.float32, copy=False))
        if mine.dtype != np.float32:
            doubtful = ascending[one][np.minimum(below + 1, known[one] - 1)] == rounded
            doubtful &= below + 1 < known[one]
            if doubtful.any():
                column = values[:, one] if observed is None else values[:, one][observed[:, one]]
                below[doubtful] = _below(column.numpy(), mine[doubtful])
        above[ends[one] : ends[one + 1]] = known[one] - below[::-1]
    return torch.from_numpy(_summed(line, above, lines))


def _ascending(values: Tensor, observed: Tensor | None) -> Floats:
    """[L, N] from [N, L], each line sorted, unknown items last."""
    if observed is not None:
        values = torch.where(observed, values, torch.nan)
    turned: Floats = values.T.clone(memory_format=torch.contiguous_format).numpy()
    turned.sort(axis=1)
    return turned


def _by_line(values: Floats, positive: NDArray[np.bool_]) -> tuple[Counts, Floats]:
    """The line and the score of each positive, line after line."""
    place = np.flatnonzero(positive)
    line = place % max(1, values.shape[1])
    small = line.astype(np.uint16) if values.shape[1] < 2**16 else line  # numpy counts short integers, sorts long ones
    order = np.argsort(small, kind="stable")
    return line[order], values.reshape(-1)[place[order]]


def _below(column: Floats, wanted: Floats) -> Counts:
    """How many of a column stand below each."""
    if len(wanted) > _FEW:
        return np.searchsorted(np.sort(column), wanted)
    return np.array([np.count_nonzero(column < one) for one in wanted])


def _summed(line: Counts, above: Counts, lines: int) -> NDArray[np.float64]:
    """Of all positives, line after line and best first. Those of one tie have one number of items at or above."""
    found = np.bincount(line, minlength=lines)
    last_of_tie = np.append((np.diff(above) != 0) | (np.diff(line) != 0), True)[: len(line)]
    ends = np.flatnonzero(last_of_tie)
    line = line[ends]
    true_positives = ends + 1 - (np.cumsum(found) - found)[line]
    tied = np.diff(ends, prepend=-1)  # positives that share this threshold
    return np.bincount(line, weights=tied * (true_positives / above[ends]), minlength=lines).astype(np.float64)


def sums_on_device(scores: Tensor, observed: Tensor | None, positive: Tensor) -> Tensor:
    """The same, where the scores are: for those that are not in the memory of the processor.

    An unknown item may stand anywhere: it weighs nothing in either running sum.
    """
    ranked, best_first = scores.sort(dim=0, descending=True)  # [N, L]
    true_positives = positive.gather(0, best_first).cumsum(0)  # [N, L] int64
    above = (torch.ones_like(positive) if observed is None else observed.gather(0, best_first)).cumsum(0)
    ends_tie = torch.ones_like(positive)
    ends_tie[:-1] = ranked[1:] != ranked[:-1]
    so_far = torch.where(ends_tie, true_positives, 0)
    before = torch.zeros_like(so_far)  # true positives of all better ties
    if len(before) > 1:
        before[1:] = so_far.cummax(0).values[:-1]
    gained = torch.where(ends_tie, true_positives - before, 0)
    return (gained * (true_positives / above.clamp(min=1).double())).sum(0)
