r"""Average precision of each class, over its observed items.

Paper and code::

    AP = sum_k (R_k - R_{k-1}) P_k

over the thresholds k; all items with the same score share one threshold, as in scikit-learn. So AP does not depend on
the order of the items. A class without an observed positive has no AP (NaN) and is excluded from means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.numerics import in_full_precision
from raretag.core.targets import Targets
from raretag.metrics.grouped import GroupedMeans, grouped_means
from raretag.metrics.precision_sums import precision_sums, sums_on_device
from raretag.metrics.scored import Scored

Ties = Literal["grouped", "order"]

_ENTRIES_AT_ONCE = 2**23


def average_precision(scores: Tensor, targets: Targets, *, ties: Ties = "grouped") -> Tensor:
    """AP [C] in float64; NaN for excluded classes. `scores` are logits or probabilities: only their order counts.

    `ties="order"` is for comparing with tables made by code in the style of ASL: items stand in the order of
    `numpy.argsort(scores)[::-1]`, precision is averaged over positives and divided by (their number + 1e-8). In ties it
    depends on the order of the rows, and, as numpy's default sort is not stable, on the processor; so did the tables.
    """
    if ties not in get_args(Ties):
        raise UserError(f"ties is {ties!r}; expected one of {', '.join(map(repr, get_args(Ties)))}")
    positive = Scored(scores, targets).positive
    observed = None if targets.observed.all() else targets.observed
    sums_of = _sums_in_row_order if ties == "order" else sums_on_device if scores.is_cuda else precision_sums
    result = torch.empty(scores.shape[1], dtype=torch.float64)
    for block in _blocks(*scores.shape):
        seen = None if observed is None else observed[:, block]
        total, found = sums_of(scores.detach()[:, block], seen, positive[:, block])
        share = total / (found.double() + (1e-8 if ties == "order" else 0.0))
        result[block] = torch.where(found > 0, share, torch.nan).cpu()
    return result


def mean_average_precision(per_class: Tensor, groups: Mapping[str, Tensor]) -> GroupedMeans:
    """mAP over all classes and over each group."""
    return grouped_means(per_class, groups)


def _blocks(items: int, classes: int) -> Iterator[slice]:
    """Blocks of classes: what is sorted is a copy, and need not be one of everything."""
    step = max(1, _ENTRIES_AT_ONCE // max(1, items))
    return (slice(start, start + step) for start in range(0, classes, step))


def _sums_in_row_order(scores: Tensor, observed: Tensor | None, positive: Tensor) -> tuple[Tensor, Tensor]:
    """The order-dependent sum of each column of [N, L], and its positives."""
    hit = positive.T.cpu().numpy()
    seen = np.ones_like(hit) if observed is None else observed.T.cpu().numpy()
    score = in_full_precision(scores.T.cpu()).contiguous().numpy()
    total = torch.zeros(len(score), dtype=torch.float64)
    for line in range(len(score)):
        best_first = np.argsort(score[line, seen[line]])[::-1]
        hits = hit[line, seen[line]][best_first]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        total[line] = precision[hits].sum()
    return total, torch.from_numpy(hit.sum(1))
