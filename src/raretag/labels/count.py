"""Counting: what methods may know of a data set before training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.targets import LabelStatistics
from raretag.labels.entries import Entries
from raretag.labels.rows import Ints, Rows, blocks

if TYPE_CHECKING:
    from raretag.labels.store import LabelStore

DENSE_UP_TO = 4096  # labels: 128 MB of int64 for the pairs


def count(store: LabelStore, cooccurrence: bool | None = None) -> LabelStatistics:
    """Positives, negatives and pairs of positives in a store. Counts of shards can be added.

    `cooccurrence` None counts pairs for up to 4,096 labels; True beyond that gives a sparse tensor.
    """
    entries = store.entries
    positives = _per_label(entries.positives, store.labels)
    together = store.labels <= DENSE_UP_TO if cooccurrence is None else cooccurrence
    return LabelStatistics(
        torch.from_numpy(positives),
        torch.from_numpy(_negatives(entries, positives)),
        len(store),
        _pairs(entries.positives, store.labels) if together else None,
    )


def _negatives(entries: Entries, positives: Ints) -> Ints:
    if entries.bits is not None:
        seen = np.zeros(entries.labels, np.int64)
        for block in blocks(len(entries), entries.labels):
            seen += entries.observed(*block).sum(axis=0)
        return seen - positives
    listed = np.zeros_like(positives) if entries.listed is None else _per_label(entries.listed, entries.labels)
    return listed if entries.absent == "unknown" else len(entries) - positives - listed


def _per_label(rows: Rows, labels: int) -> Ints:
    return np.bincount(rows.indices, minlength=labels)


def _pairs(rows: Rows, labels: int) -> Tensor:
    """n_ij [C, C] = X^T X for the positives X [N, C]."""
    ones: NDArray[Any] = np.ones(len(rows.indices), np.int64)
    x = sparse.csr_array((ones, rows.indices, rows.indptr), shape=(len(rows), labels))
    pairs = (x.T @ x).tocoo()
    if labels <= DENSE_UP_TO:
        return torch.from_numpy(pairs.toarray())
    where = torch.from_numpy(np.stack(pairs.coords).astype(np.int64))
    return torch.sparse_coo_tensor(
        where, torch.from_numpy(pairs.data), (labels, labels), check_invariants=True
    ).coalesce()
