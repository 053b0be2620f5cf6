"""How good the first labels of a ranking are, where labels are too many to be scored one by one.

    P@k    = mean over items of  hits among the first k / k
    PSP@k  = sum over items of  sum of 1 / p_l over the hits among the first k
             / the same sum for the best that k labels can reach
    nDCG@k = mean over items of  sum of 1 / log2(1 + place) over the hits / its largest value

with the propensity p_l of a label with N_l of N training items (Jain, Prabhu, Varma, "Extreme Multi-label Loss
Functions", KDD 2016):

    p_l = 1 / (1 + C (N_l + B)^-A),    C = (ln N - 1) (B + 1)^A

recall@k of a group of labels is the share of their positives that are among the first k of their items; coverage@k is
the share of the labels with a positive that are found at least once. Items without an observed positive are left out. A
label that is unknown for an item is taken out of its ranking; where all that is not listed is unknown, it counts as
absent, so that precision is a lower bound and PSP@k, which corrects for it, is what to look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.ranker import NONE, Known, Ranked

PLACES = (1, 3, 5)
RECALL = 10  # places in which recall and coverage look


@dataclass(frozen=True)
class TopK:
    """Sums that can be added over parts of the items."""

    items: int
    hits: NDArray[np.float64]  # [K], of the first k places, over all items; K = RECALL
    weighted: NDArray[np.float64]  # [K] the same, each hit 1 / p_l
    most_weighted: NDArray[np.float64]  # [K] what the best ranking would reach
    gain: NDArray[np.float64]  # [K] sum of nDCG@k
    found: NDArray[np.int64]  # [C] positives among the first RECALL places
    positives: NDArray[np.int64]  # [C]

    @classmethod
    def of(cls, ranked: Ranked, known: Known, propensity: NDArray[np.float64]) -> TopK:
        """Of some items, `propensity` [C]."""
        labels = first_known(ranked, known)[:, :RECALL]
        sizes = np.diff(known.positive.indptr)
        there = sizes > 0
        hits = is_positive(labels, known.positive) & there[:, None]  # [B, K]
        weights = np.where(hits, 1 / propensity[np.maximum(labels, 0)], 0.0)
        discount = 1 / np.log2(np.arange(2, RECALL + 2))
        ideal = np.cumsum(discount)[np.minimum.outer(np.maximum(sizes, 1), np.arange(1, RECALL + 1)) - 1]
        return cls(
            int(there.sum()),
            hits.cumsum(1).sum(0).astype(np.float64),
            weights.cumsum(1).sum(0),
            best_weights(known.positive, 1 / propensity).cumsum(1).sum(0),
            ((hits * discount).cumsum(1) / ideal).sum(0),
            np.bincount(labels[hits], minlength=known.labels),
            np.bincount(known.positive.indices, minlength=known.labels),
        )

    def __add__(self, other: TopK) -> TopK:
        return TopK(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def numbers(self, groups: Mapping[str, Tensor]) -> dict[str, Any]:
        """Ready for JSON, as shares of 1; None where nothing can be measured."""
        items = max(self.items, 1)
        every: dict[str, Any] = {"total": slice(None), **{name: some.numpy() for name, some in groups.items()}}

        def per_group(found: NDArray[Any], positives: NDArray[Any]) -> dict[str, float | None]:
            return {name: _share(found[some].sum(), positives[some].sum()) for name, some in every.items()}

        return {
            "items": self.items,
            **{f"P@{k}": float(self.hits[k - 1]) / (k * items) for k in PLACES},
            **{f"PSP@{k}": _share(self.weighted[k - 1], self.most_weighted[k - 1]) for k in PLACES},
            **{f"nDCG@{k}": float(self.gain[k - 1]) / items for k in PLACES},
            f"recall@{RECALL}": per_group(self.found, self.positives),
            f"coverage@{RECALL}": per_group(self.found > 0, self.positives > 0),
        }


def propensities(positives: NDArray[Any], items: int, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
    """p_l [C] from the training positives of each label.

    >>> propensities(np.array([0, 10, 1000]), items=10_000).round(2)
    array([0.08, 0.22, 0.77])
    """
    c = max(np.log(max(items, 1)) - 1, 0.0) * (b + 1) ** a
    found: NDArray[np.float64] = 1 / (1 + c * (np.asarray(positives, np.float64) + b) ** -a)
    return found


def states(ranked: Ranked, known: Known) -> NDArray[np.int8]:
    """[B, k]: 1 positive, 0 negative, -1 unknown or no label."""
    found = is_positive(ranked.labels, known.positive).astype(np.int8)
    if known.excepted is not None and known.absent == "negative":
        found[is_positive(ranked.labels, known.excepted)] = -1
    found[ranked.labels == NONE] = -1
    return found


def is_positive(labels: NDArray[Any], matrix: sparse.csr_array) -> NDArray[np.bool_]:
    """Which of the labels [B, k] a matrix [B, C] stores for their row."""
    count = matrix.shape[1]
    keys = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)) * count + matrix.indices  # increasing
    asked = np.arange(len(labels))[:, None] * count + labels
    if not len(keys):
        return np.zeros(labels.shape, np.bool_)
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    found: NDArray[np.bool_] = (keys[place] == asked) & (labels >= 0)
    return found


def first_known(ranked: Ranked, known: Known) -> NDArray[np.int32]:
    """The labels [B, k] without those that are unknown for the item; the rest moves up, and NONE fills the end."""
    labels = ranked.labels
    if labels.shape[1] < RECALL:
        labels = np.pad(labels, ((0, 0), (0, RECALL - labels.shape[1])), constant_values=NONE)
    if known.excepted is None or known.absent == "unknown":
        return labels
    unknown = is_positive(labels, known.excepted)
    kept = np.take_along_axis(np.where(unknown, NONE, labels), np.argsort(unknown, axis=1, kind="stable"), 1)
    return np.asarray(kept, np.int32)


def best_weights(positive: sparse.csr_array, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """[B, RECALL]: the largest weights of each item's positives, falling."""
    sizes = np.diff(positive.indptr)
    row = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-weight[positive.indices], row))
    place = np.arange(len(row)) - positive.indptr[row]
    best = np.zeros((len(sizes), RECALL))
    few = place < RECALL
    best[row[few], place[few]] = weight[positive.indices[order]][few]
    return best


def _share(part: Any, whole: Any) -> float | None:
    return float(part) / float(whole) if whole else None
