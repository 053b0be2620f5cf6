r"""Average precision of each class, over its observed items.

Paper and code::

    AP = sum_k (R_k - R_{k-1}) P_k

over the thresholds k; all items with the same score share one threshold, as in scikit-learn. So AP does not depend on
the order of the items. A class without an observed positive has no AP (NaN) and is excluded from means.

The precision at a positive is the number of positives at or above its score divided by the number of observed items
there. So sort the scores of a class without labels or indices, which numpy does with vector instructions, and search
the positives, which are few, among them. Nothing is gathered; floats compare as floats, so that ties, -0.0 and
infinities need no care; and an unknown item is a NaN, which stands behind everything.

float64 is sorted as float32, at half the cost: rounding may make equals of two scores but never swaps them. A positive
that then has an equal is counted again with what was not rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.numerics import in_full_precision
from raretag.core.targets import Targets
from raretag.metrics.scored import Scored, mean_of_known

Ties = Literal["grouped", "order"]

_ENTRIES_AT_ONCE = 2**23


def average_precision(scores: Tensor, targets: Targets, *, ties: Ties = "grouped") -> Tensor:
    """AP [C] in float64; NaN for excluded classes. `scores` are logits or probabilities: only their order counts.

    `ties="order"` is for comparing with tables made by code in the style of ASL: items stand in the order of
    `numpy.argsort(scores)[::-1]`, precision is averaged over positives and divided by (their number + 1e-8). In ties it
    depends on the order of the rows, and, as numpy's default sort is not stable, on the processor; so did the tables.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.average_precision(logits, targets)
    tensor([0.8333, 1.0000], dtype=torch.float64)
    """
    if ties not in get_args(Ties):
        raise UserError(f"ties is {ties!r}; expected one of {', '.join(map(repr, get_args(Ties)))}")
    positive = Scored(scores, targets).positive
    observed = None if targets.observed.all() else targets.observed
    sums_of = _sums_in_row_order if ties == "order" else sums_on_device if scores.is_cuda else precision_sums
    result = torch.empty(scores.shape[1], dtype=torch.float64)
    for block in _blocks(*scores.shape):
        known = None if observed is None else observed[:, block]
        total, found = sums_of(scores.detach()[:, block], known, positive[:, block])
        share = total / (found.double() + (1e-8 if ties == "order" else 0.0))
        result[block] = torch.where(found > 0, share, torch.nan).cpu()
    return result


def mean_average_precision(scores: Tensor, targets: Targets) -> float:
    """mAP: the mean over the classes that have an observed positive; NaN if none has.

    For means over head, medium and tail: `grouped_means(average_precision(scores, targets), groups)`.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.mean_average_precision(logits, targets)
    0.9166666666666666
    """
    return mean_of_known(average_precision(scores, targets))


def _blocks(items: int, classes: int) -> Iterator[slice]:
    """Blocks of classes: what is sorted is a copy, and need not be one of everything."""
    step = max(1, _ENTRIES_AT_ONCE // max(1, items))
    return (slice(start, start + step) for start in range(0, classes, step))


def _sums_in_row_order(scores: Tensor, observed: Tensor | None, positive: Tensor) -> tuple[Tensor, Tensor]:
    """The order-dependent sum of each column of [N, L], and its positives."""
    hit = positive.T.cpu().numpy()
    known = np.ones_like(hit) if observed is None else observed.T.cpu().numpy()
    score = in_full_precision(scores.T.cpu()).contiguous().numpy()
    total = torch.zeros(len(score), dtype=torch.float64)
    for line in range(len(score)):
        best_first = np.argsort(score[line, known[line]])[::-1]
        hits = hit[line, known[line]][best_first]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        total[line] = precision[hits].sum()
    return total, torch.from_numpy(hit.sum(1))


Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]

_FEW = 32  # counting the scores above so many positives costs less than sorting them all


def precision_sums(scores: Tensor, observed: Tensor | None, positive: Tensor) -> tuple[Tensor, Tensor]:
    """From [N, L]: the precision at each positive, ties together, summed, and the number of positives; both [L].

    `observed` is None if everything was.
    """
    items, lines = scores.shape
    values = in_full_precision(scores).contiguous()
    ascending = _ascending(values.float(), observed)  # [L, N] float32
    line, wanted = _by_line(values.numpy(), positive.numpy())
    found = np.bincount(line, minlength=lines)
    ends = np.cumsum(found)
    mine = [slice(*ends_of) for ends_of in zip(ends - found, ends, strict=True)]  # of each line, in what follows
    with_positives = np.flatnonzero(found)
    for one in with_positives:
        wanted[mine[one]].sort()
    rounded = torch.from_numpy(wanted).float().numpy()  # as above; numpy would warn of infinities
    below = np.empty(len(line), dtype=np.int64)  # of each positive, worst first: observed items below
    known = np.full(lines, items)
    for one in with_positives:
        below[mine[one]] = np.searchsorted(ascending[one], rounded[mine[one]])
        if observed is not None:
            known[one] = np.searchsorted(ascending[one], np.float32(np.nan))
    if values.dtype == torch.float64:
        following = np.minimum(below + 1, known[line] - 1)
        doubtful = (ascending[line, following] == rounded) & (following > below)
        for one in np.unique(line[doubtful]):
            column = values[:, one] if observed is None else values[:, one][observed[:, one]]
            here = mine[one].start + np.flatnonzero(doubtful[mine[one]])
            below[here] = _below(column.numpy(), wanted[here])
    return torch.from_numpy(_summed(line, known[line] - below, found)), torch.from_numpy(found)


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


def _summed(line: Counts, above: Counts, found: Counts) -> NDArray[np.float64]:
    """From `above` of all positives, line after line and worst first: observed items at or above.

    Positives of one tie have the same number, and the first of them, having most positives above, stands for all.
    """
    first_of_tie = np.append(True, (np.diff(above) != 0) | (np.diff(line) != 0))[: len(line)]
    first = np.flatnonzero(first_of_tie)
    line = line[first]
    true_positives = np.cumsum(found)[line] - first
    tied = np.diff(first, append=len(above))  # positives that share this threshold
    return np.bincount(line, weights=tied * (true_positives / above[first]), minlength=len(found)).astype(np.float64)


def sums_on_device(scores: Tensor, observed: Tensor | None, positive: Tensor) -> tuple[Tensor, Tensor]:
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
    return (gained * (true_positives / above.clamp(min=1).double())).sum(0), positive.sum(0)
