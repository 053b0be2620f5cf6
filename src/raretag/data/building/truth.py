"""Published label lists from which positives were left out on purpose."""

from __future__ import annotations

from dataclasses import replace

from raretag.core.errors import UserError
from raretag.data.building.splits import Splits, rows_by_id
from raretag.labels.store import LabelStore


def partial(whole: Splits, left: LabelStore, called: str) -> Splits:
    """The splits with the training labels of a list that has fewer positives; what it does not list is unknown."""
    row = rows_by_id([str(image) for image in left.ids])
    lists, truth = left.lists(), whole.train.lists()
    kept = []
    for image, full in zip(whole.train.ids, truth, strict=True):
        if str(image) not in row:
            raise UserError(
                f"the list '{called}' lacks the training image '{image}'; expected the same images as in full"
            )
        labels = lists[row[str(image)]]
        if not set(labels) <= set(full):
            raise UserError(
                f"the list '{called}' gives '{image}' a label that the full list does not; are they of one set?"
            )
        kept.append(labels)
    train = LabelStore.from_lists(kept, names=whole.train.names, ids=map(str, whole.train.ids), absent="unknown")
    remark = f"train: only the positives of the published list '{called}' are known"
    return replace(whole, train=train, truth=whole.train, published=None).remarked(remark, annotations=called)
