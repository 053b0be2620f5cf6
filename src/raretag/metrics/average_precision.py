r"""Average precision of each class, over its observed items.

Paper and code::

    AP = sum_k (R_k - R_{k-1}) P_k

over the thresholds k; all items with the same score share one threshold, as in scikit-learn. So AP does not depend on
the order of the items. A class without an observed positive has no AP (NaN) and is excluded from means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.numerics import in_full_precision
from raretag.core.targets import Targets
from raretag.metrics import order
from raretag.metrics.grouped import GroupedMeans, grouped_means
from raretag.metrics.scored import Scored

Ties = Literal["grouped", "order"]


def average_precision(scores: Tensor, targets: Targets, *, ties: Ties = "grouped") -> Tensor:
    """AP [C] in float64; NaN for excluded classes. `scores` are logits or probabilities: only their order counts.

    `ties="order"` is for comparing with tables made by code in the style of ASL: items stand in the order of
    `numpy.argsort(scores)[::-1]`, precision is averaged over positives and divided by (their number + 1e-8). In ties it
    depends on the order of the rows, and, as numpy's default sort is not stable, on the processor; so did the tables.
    """
    if ties not in get_args(Ties):
        raise UserError(f"ties is {ties!r}; expected one of {', '.join(map(repr, get_args(Ties)))}")
    positive = Scored(scores, targets).positive
    items, classes = scores.shape
    result = np.empty(classes)  # [C] float64
    of_block = _in_row_order if ties == "order" else _grouped
    for block in order.blocks(classes, items):
        result[block] = of_block(
            *(entries[:, block].T.contiguous() for entries in (scores, targets.observed, positive))
        )
    return torch.from_numpy(result)


def mean_average_precision(per_class: Tensor, groups: Mapping[str, Tensor]) -> GroupedMeans:
    """mAP over all classes and over each group."""
    return grouped_means(per_class, groups)


def _grouped(scores: Tensor, observed: Tensor, positive: Tensor) -> NDArray[np.float64]:
    """AP of each line of [L, N]. Looks at positives only: in a tie they come last, so the last one ends the tie."""
    lines, items = scores.shape
    keys = np.sort(order.keys(scores, observed, positive), axis=1).ravel()
    place = np.flatnonzero((keys & 1).astype(bool))  # of the positives, best first, line after line
    line, rank = np.divmod(place, items) if items else (place, place)
    found = np.bincount(line, minlength=lines)  # positives of each line

    same_tie = (np.diff(keys[place]) == 0) & (np.diff(line) == 0)
    ends = np.flatnonzero(np.append(~same_tie, True)) if len(place) else place
    line = line[ends]
    before = np.cumsum(found) - found  # positives in the lines before
    true_positives = ends + 1 - before[line]
    precision = true_positives / (rank[ends] + 1)
    tied = np.diff(ends, prepend=-1)  # positives that share this threshold
    return _divided(np.bincount(line, weights=tied * precision, minlength=lines).astype(np.float64), found)


def _in_row_order(scores: Tensor, observed: Tensor, positive: Tensor) -> NDArray[np.float64]:
    """The order-dependent AP of each line of [L, N]."""
    seen, hit = observed.cpu().numpy(), positive.cpu().numpy()
    score = in_full_precision(scores.detach().cpu()).numpy()
    total = np.zeros(len(score))
    for line in range(len(score)):
        best_first = np.argsort(score[line, seen[line]])[::-1]
        hits = hit[line, seen[line]][best_first]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        total[line] = precision[hits].sum()
    return _divided(total, hit.sum(1), extra=1e-8)


def _divided(total: NDArray[np.float64], found: NDArray[np.int64], extra: float = 0.0) -> NDArray[np.float64]:
    """total / found, NaN where nothing was found."""
    result = np.full(len(total), np.nan)
    np.divide(total, found + extra, out=result, where=found > 0)
    return result
