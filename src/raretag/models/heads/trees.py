"""Trees that send an item to leaves and add up what its leaves know of each label."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_TABLES = ("feature", "threshold", "left", "right", "leaf", "label", "value", "roots", "steps")


class Trees(nn.Module):
    """f(x) [B, C]: the mean over trees of the label frequencies in the leaf that x falls into.

    All trees lie in one list of nodes. An inner node sends x to `left` if x[feature] <= threshold, else to `right`. A
    leaf sends x to itself, so that `steps` steps bring every item to a leaf. The frequencies of a leaf are a row of
    labels and values, filled up with zeros.
    """

    roots: Tensor  # [T] the first node of each tree
    feature: Tensor  # [M]
    threshold: Tensor  # [M]
    left: Tensor  # [M]
    right: Tensor  # [M]
    leaf: Tensor  # [M] row of a leaf's frequencies
    label: Tensor  # [R, K]
    value: Tensor  # [R, K]
    steps: Tensor  # [S], as many as the deepest tree needs; only its length counts

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.labels = labels
        for name in _TABLES:
            shape = (0, 0) if name in ("label", "value") else (0,)
            dtype = torch.float32 if name in ("threshold", "value") else torch.int32
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))

    def __len__(self) -> int:
        return len(self.roots)

    def forward(self, features: Tensor) -> Tensor:
        rows = features.shape[0]  # not len(), which would fix the size of a batch in an exported model
        node = self.roots.long().expand(rows, -1)  # [B, T]
        for _ in range(len(self.steps)):
            smaller = features.gather(1, self.feature[node].long()) <= self.threshold[node]
            node = torch.where(smaller, self.left[node], self.right[node]).long()
        leaf = self.leaf[node].long()  # [B, T]
        label, value = self.label[leaf].long().flatten(1), self.value[leaf].to(features.dtype).flatten(1)  # [B, T K]
        sums = features.new_zeros(rows, self.labels)
        return sums.scatter_add(1, label, value) / max(len(self.roots), 1)

    def fill(self, tables: Mapping[str, Tensor]) -> None:
        """Take the tables of all trees (solvers/forest.py)."""
        for name in _TABLES:
            setattr(self, name, tables[name].to(getattr(self, name).device))

    def resize_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Room for stored tables of these shapes; none if they are not among them."""
        for name in _TABLES:
            table: Tensor = getattr(self, name)
            shape = shapes.get(name, (0,) * table.ndim)
            if len(shape) == table.ndim and shape != tuple(table.shape):
                setattr(self, name, table.new_zeros(shape))
