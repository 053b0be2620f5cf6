"""From any map-style torch Dataset: its items are asked for when a batch needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.python.labels import Split, as_labels, data_set
from raretag.labels.collection import DataSet
from raretag.labels.entries import Absent


class DatasetInputs:
    """The first of what a dataset gives for an item; it has to be a tensor of one shape for all."""

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise UserError(
                f"{type(dataset).__name__} has no length or no items by number; expected a map-style Dataset"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return torch.stack([self._tensor(row) for row in rows.tolist()])

    def _tensor(self, row: int) -> Tensor:
        item = self.dataset[row]
        value = item[0] if isinstance(item, (tuple, list)) else item
        if not isinstance(value, Tensor):
            raise UserError(
                f"item {row} of the dataset is a {type(value).__name__}; expected a tensor, or (tensor, ...)"
            )
        return value.float()


def from_torch(
    dataset: Any,
    labels: Any,
    *,
    names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    negatives: Any = None,
    absent: Absent | None = None,
    split: Split = None,
    seed: int = 0,
    name: str = "dataset",
) -> DataSet:
    """`dataset[i]` is a tensor or a tuple that begins with one; `labels` and `split` as in `from_arrays`.

    Random augmentation inside the dataset is not keyed by (seed, item, epoch): such runs do not repeat exactly.
    """
    store = as_labels(labels, names=names, ids=ids, negatives=negatives, absent=absent)
    return data_set(DatasetInputs(dataset), store, split, seed, name)
