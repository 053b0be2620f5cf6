"""A label store in numbers that a person wants to see before training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from raretag.labels.groups import groups
from raretag.labels.store import LabelStore


def describe(
    store: LabelStore, edges: tuple[int, int] = (20, 100), shown: int = 10, counted: Tensor | None = None
) -> dict[str, Any]:
    """Ready for JSON. Shares are of all items x labels; frequencies are per item.

    counted    [C] positives that decide the groups, where some of them were hidden; default: those of the store
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
