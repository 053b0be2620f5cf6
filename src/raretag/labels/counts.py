"""Labels in numbers: counts that methods may know before training, head / medium / tail groups, and a description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
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
        observed = np.zeros(entries.labels, np.int64)
        for block in blocks(len(entries), entries.labels):
            observed += entries.observed(*block).sum(axis=0)
        return observed - positives
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


def groups(positives: Tensor, edges: tuple[int, int] = (20, 100)) -> dict[str, Tensor]:
    """Label indices of the head (n >= 100), medium (20 <= n < 100) and tail (n < 20); n are TRAINING positives [C].

    Wu et al., "Distribution-Balanced Loss", ECCV 2020, section 4.1. The paper says "over 100" for the head; its class
    lists count 100 itself as head (VOC-MLT 6/6/8, COCO-MLT 22/33/25), so the edges belong to the group above them.

    >>> {name: labels.tolist() for name, labels in groups(torch.tensor([150, 100, 20, 3])).items()}
    {'head': [0, 1], 'medium': [2], 'tail': [3]}
    """
    low, high = edges
    if not 0 <= low <= high:
        raise UserError(f"edges {edges} must be two counts, the lower one first, such as (20, 100)")
    n = torch.as_tensor(positives)
    return {
        "head": torch.nonzero(n >= high).flatten(),
        "medium": torch.nonzero((n >= low) & (n < high)).flatten(),
        "tail": torch.nonzero(n < low).flatten(),
    }


def describe(
    store: LabelStore, edges: tuple[int, int] = (20, 100), shown: int = 10, counted: Tensor | None = None
) -> dict[str, Any]:
    """A summary of a store for people to read before training, ready for JSON.

    Shares are of all items x labels; frequencies are per item.

    Args:
        store: the labels to describe.
        edges: counts of training positives that separate tail, medium and head.
        shown: how many of the most frequent and of the rarest labels are listed.
        counted: [C] positives that decide the groups, where some of them were hidden; default: those of the store.
    """
    statistics = store.statistics(cooccurrence=store.labels <= 4096)
    positives, items = statistics.positives, max(statistics.items, 1)
    order = torch.argsort(positives, descending=True, stable=True)
    present = positives[positives > 0]
    members = groups(positives if counted is None else counted, edges)
    entries = max(items * store.labels, 1)
    return {
        "items": statistics.items,
        "labels": store.labels,
        "labels_per_item": float(positives.sum()) / items,
        "items_without_positive": int((store.entries.positives.lengths == 0).sum()),
        "observed": {
            "positive": float(positives.sum()) / entries,
            "negative": float(statistics.negatives.sum()) / entries,
            "unknown": float(statistics.unknown.sum()) / entries,
        },
        "most_to_least_frequent": float(present.max() / present.min()) if len(present) else None,
        "groups": {"edges": list(edges), **{name: len(some) for name, some in members.items()}},
        "most_frequent": _named(store, positives, order[:shown]),
        "rarest": _named(store, positives, order.flip(0)[:shown]),
        "never_positive": _names(store, (positives == 0).nonzero().flatten()),
        "always_alone": _names(store, always_alone(statistics.cooccurrence, positives)),
        "distribution": {
            "labels": _names(store, order),
            "positives": positives[order].tolist(),
            "before": (positives[order].double() / items).tolist(),
            "after_class_aware": _after_class_aware(statistics.cooccurrence, positives, order),
        },
    }


def always_alone(cooccurrence: Tensor | None, positives: Tensor) -> Tensor:
    """Labels with positives that never occur together with another label."""
    if cooccurrence is None or cooccurrence.is_sparse:
        return torch.empty(0, dtype=torch.int64)
    others = cooccurrence.sum(1) - cooccurrence.diagonal()
    return ((others == 0) & (positives > 0)).nonzero().flatten()


def _after_class_aware(cooccurrence: Tensor | None, positives: Tensor, order: Tensor) -> list[float] | None:
    """p_hat_i = 1/C sum_j n_ij / n_j: how frequent a label is among items drawn by class-aware sampling (DB eq. 1)."""
    if cooccurrence is None or cooccurrence.is_sparse:
        return None
    there = positives > 0
    conditional = cooccurrence.double() / positives.clamp(min=1)[None, :]
    share = conditional[:, there].sum(1) / max(int(there.sum()), 1)
    return [float(value) for value in share[order]]


def _named(store: LabelStore, positives: Tensor, labels: Tensor) -> list[dict[str, Any]]:
    names = store.names  # once: a store without given names makes them all each time
    return [{"label": names[label], "positives": int(positives[label])} for label in labels.tolist()]


def _names(store: LabelStore, labels: Tensor) -> list[str]:
    names = store.names
    return [names[label] for label in labels.tolist()]
