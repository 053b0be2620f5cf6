"""The splits of a data set before anyone has looked at an image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.labels.collection import DataSet, Inputs, Items
from raretag.labels.hide import hide
from raretag.labels.rows import Ints
from raretag.labels.split import split
from raretag.labels.store import LabelStore

_PURPOSE = int.from_bytes(b"remain", "big")


@dataclass(frozen=True)
class Splits:
    train: LabelStore
    test: LabelStore
    validation: LabelStore
    truth: LabelStore | None = None  # training labels before some were hidden
    published: Tensor | None = None  # positives of each label before some items were held out
    notes: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @classmethod
    def held_out(cls, train: LabelStore, test: LabelStore, share: float, seed: int) -> Splits:
        """For a set without a validation part: a stratified share of its training items.

        With share 0 nothing is taken from training, as in the papers, and the training items stand in for validation.
        """
        if not 0 <= share < 1:
            raise UserError(f"validation is {share}; expected the share of training items to hold out, 0 or below 1")
        if not share:
            remark = "validation: the training items themselves, so what is chosen on them is too sure of itself"
            return cls(train, test, train, notes={"validation": share}, remarks=(remark,))
        kept, held = split(train, [1.0 - share, share], seed).parts
        remark = f"validation: {len(held):,} training items, drawn so that rare labels are in both; the set has none"
        return cls(
            train.take(kept),
            test,
            train.take(held),
            published=train.statistics(cooccurrence=False).positives,
            notes={"validation": share},
            remarks=(remark,),
        )

    def stores(self) -> dict[str, LabelStore]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def with_hidden(self, missing: float, seed: int) -> Splits:
        """This share of the training positives unknown, and with it all negatives; every item keeps a positive.

        Groups of labels go by what is left, as in the paper that does this.
        """
        if not missing:
            return self
        hidden = hide(self.train, "ppl", keep=1.0 - missing, seed=seed, at_least_one=True)
        remark = f"{missing:.0%} of the training positives were hidden at random, and all negatives with them"
        left = hidden.statistics(cooccurrence=False).positives
        return replace(self, train=hidden, truth=self.train, published=left).remarked(remark, missing=missing)

    def remarked(self, *remarks: str, **notes: Any) -> Splits:
        return replace(self, remarks=(*self.remarks, *remarks), notes=self.notes | notes)


class NamedSet(ABC):
    """A data set that is read in two steps: labels, then inputs for the items of each split, found by their ids."""

    name: ClassVar[str]

    @abstractmethod
    def splits(self) -> Splits: ...

    @abstractmethod
    def inputs(self, store: LabelStore, part: str) -> Inputs:
        """What a model sees of the items of a part: "train" (which comes first), "validation" or "test"."""

    def labels(self) -> dict[str, LabelStore]:
        """The labels of each split; works where the images are absent."""
        return self.splits().stores()

    def load(self) -> DataSet:
        found = self.splits()
        items = {part: Items(self.inputs(store, part), store) for part, store in found.stores().items()}
        return DataSet(
            name=self.name,
            train=items["train"],
            validation=items["validation"],
            test=items["test"],
            truth=found.truth,
            published=found.published,
            notes=found.notes,
            remarks=found.remarks,
        )


def remaining(label: Ints, used: Ints, each: int, seed: int) -> tuple[Ints, list[int]]:
    """A balanced set of the rows that a long-tailed subset left over: `each` of every label. [rows], [labels short]

    Where a label has too few rows left, used ones stand in; those labels are returned too.
    """
    free = np.ones(len(label), np.bool_)
    free[used] = False
    order = chance.permutation(len(label), _PURPOSE, seed).numpy()
    order = order[np.argsort(~free[order], kind="stable")]  # the free rows first
    chosen, short = [], []
    for value in range(int(label.max()) + 1):
        rows = order[label[order] == value][:each]
        chosen.append(rows)
        if not free[rows].all():
            short.append(value)
    return np.sort(np.concatenate(chosen)), short


def drawn(count: int, below: int, *key: int) -> Ints:
    """`count` whole numbers from 0 to `below - 1`."""
    numbers: Ints = (chance.uniform(*key, torch.arange(count)) * below).long().numpy()
    return numbers


def rows_by_id(ids: Sequence[str]) -> dict[str, int]:
    return {name: row for row, name in enumerate(ids)}
