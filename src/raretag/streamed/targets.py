"""The labels of a batch as lists, of which blocks of columns are made dense when their turn comes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.labels.entries import Absent
from raretag.labels.rows import Selection, numbers
from raretag.labels.store import LabelStore


@dataclass(frozen=True, slots=True)
class Listed:
    """Places in a [B, C] matrix, sorted by label."""

    row: Tensor  # [n] int64
    label: Tensor  # [n] int64, increasing

    @classmethod
    def of(cls, row: Tensor, label: Tensor) -> Listed:
        order = torch.argsort(label, stable=True)
        return cls(row[order], label[order])

    def within(self, numbers: slice | Tensor) -> tuple[Tensor, Tensor]:
        """The places in these columns: their rows, and their columns counted from the first of them."""
        if isinstance(numbers, slice):
            bounds = torch.searchsorted(
                self.label, torch.tensor([numbers.start, numbers.stop], device=self.label.device)
            )
            start, stop = bounds.tolist()
            return self.row[start:stop], self.label[start:stop] - numbers.start
        if not len(numbers):
            return self.row[:0], self.label[:0]
        place = torch.searchsorted(numbers, self.label).clamp(max=len(numbers) - 1)
        there = numbers[place] == self.label
        return self.row[there], place[there]


@dataclass(frozen=True, slots=True)
class ListedTargets:
    """Labels of B items: positives are listed, of the other two states one is `others` and the rest is `absent`.

    From a label store: `listed_targets(store, rows)`.

    >>> import torch, raretag
    >>> pairs = torch.tensor([0, 1]), torch.tensor([2, 0])  # rows, labels
    >>> listed = raretag.streamed.ListedTargets.of_pairs((2, 3), pairs, absent="negative")
    >>> listed.columns(slice(0, 3), torch.zeros(1)).value
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """

    shape: tuple[int, int]  # B, C
    positives: Listed
    others: Listed  # observed negatives where `absent` is "unknown", else unknown labels
    absent: Absent

    @classmethod
    def of_pairs(
        cls,
        shape: tuple[int, int],
        positives: tuple[Tensor, Tensor],
        others: tuple[Tensor, Tensor] | None = None,
        absent: Absent = "unknown",
    ) -> ListedTargets:
        """From (row, label) pairs in any order."""
        nothing = torch.zeros(0, dtype=torch.int64, device=positives[0].device)
        found = []
        for row, label in (positives, (nothing, nothing) if others is None else others):
            if len(row) != len(label):
                raise UserError(f"{len(row)} rows and {len(label)} labels; expected one label for each row number")
            wrong = (row < 0) | (row >= shape[0]) | (label < 0) | (label >= shape[1])
            if wrong.any():
                place = tuple(torch.stack([row, label])[:, wrong][:, 0].tolist())
                raise UserError(f"the pair (row, label) {place} lies outside of {shape[0]} rows x {shape[1]} labels")
            found.append(Listed.of(row.long(), label.long()))
        return cls(shape, found[0], found[1], absent)

    def __len__(self) -> int:
        return self.shape[0]

    def to(self, device: torch.device | str) -> ListedTargets:
        moved = [Listed(some.row.to(device), some.label.to(device)) for some in (self.positives, self.others)]
        return ListedTargets(self.shape, moved[0], moved[1], self.absent)

    def columns(self, numbers: slice | Tensor, like: Tensor) -> Targets:
        """Some columns [B, c], dense; a tensor of numbers must increase."""
        width = numbers.stop - numbers.start if isinstance(numbers, slice) else len(numbers)
        value = like.new_zeros(len(self), width)
        value[self.positives.within(numbers)] = 1.0
        if self.absent == "negative":
            observed = torch.ones(value.shape, dtype=torch.bool, device=value.device)
            observed[self.others.within(numbers)] = False
        else:
            observed = value > 0.5
            observed[self.others.within(numbers)] = True
        return Targets(value, observed)

    def counts(self, numbers: Tensor | None) -> Tensor:
        """How many labels of each row [B] are listed, or how many of these."""
        some = [one.row if numbers is None else one.within(numbers)[0] for one in (self.positives, self.others)]
        return torch.bincount(torch.cat(some), minlength=len(self))

    def observed_labels(self) -> Tensor | None:
        """The labels [n] that some item has observed, increasing; None: nearly all."""
        if self.absent == "negative":
            return None
        labels: Tensor = torch.unique(torch.cat([self.positives.label, self.others.label]))
        return labels


def listed_targets(store: LabelStore, rows: Selection) -> ListedTargets:
    """The labels of these rows of a store, as lists.

    >>> import raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat", "dog"]])
    >>> raretag.streamed.listed_targets(labels, [1]).positives.label
    tensor([0, 1])
    """
    some = store.entries.pick(numbers(rows, len(store)))
    others = some.unknown() if some.absent == "negative" else some.negatives()
    pairs = [
        (torch.from_numpy(found.row), torch.from_numpy(found.indices.astype("int64")))
        for found in (some.positives, others)
    ]
    return ListedTargets((len(some), store.labels), Listed.of(*pairs[0]), Listed.of(*pairs[1]), some.absent)
