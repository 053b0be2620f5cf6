"""What the named sets share: where their files are, their parts, labels without images, and inputs by item."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import DataAbsentError, UserError
from raretag.data.dataset import NOT_HELD_OUT, DataSet, Inputs, Items
from raretag.data.inputs.features import Features
from raretag.data.inputs.images import Augment, Images
from raretag.labels.hide import hide
from raretag.labels.rows import Ints
from raretag.labels.split import split
from raretag.labels.store import LabelStore

VARIABLE = "RARETAG_DATA"
TESTED = 0.2  # share of the items that test a model, where no file says which
_PURPOSE = int.from_bytes(b"remain", "big")


class Place:
    """The folder of all named sets, for one of them.

    `about` is its docstring, whose second paragraph tells where to get it.
    """

    def __init__(self, source: str, about: str | None, root: Path | None) -> None:
        paragraphs = (about or "").split("\n\n")
        self.source = source
        self.how = " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""
        given = root or os.environ.get(VARIABLE)
        self.root = Path(given).expanduser() if given else None

    def find(self, names: str) -> Path | None:
        """The first of some files, separated by `|`, that is there."""
        root = self._folder()
        return next((root / name for name in names.split("|") if (root / name).exists()), None)

    def file(self, names: str) -> Path:
        """The same, but it must be there."""
        path = self.find(names)
        if path is None:
            first, *others = names.split("|")
            instead = f" (or {', '.join(others)})" if others else ""
            raise DataAbsentError(
                f"{self.source} needs '{first}'{instead} in the folder '{self._folder()}'. {self.how}"
            )
        return path

    def images(self, paths: Sequence[Path], size: int, seed: int) -> Inputs:
        """Photographs, once every file is known to be there; cropped, mirrored and recoloured at random in training."""
        absent = [path for path in paths if not path.is_file()]
        if absent:
            raise DataAbsentError(
                f"{self.source}: {len(absent):,} of {len(paths):,} images are missing, the first is '{absent[0]}'; "
                f"the labels alone can be inspected. {self.how}"
            )
        return Images([str(path) for path in paths], size=size, augment=Augment(seed=seed))

    def _folder(self) -> Path:
        if self.root is None:
            raise DataAbsentError(
                f"{self.source} is read from a folder, and none is given: set the variable {VARIABLE} "
                f"or the option data.root. {self.how}"
            )
        if not self.root.is_dir():
            raise DataAbsentError(
                f"the folder of data sets '{self.root}' does not exist; {self.source} is read from it"
            )
        return self.root


@dataclass(frozen=True)
class Splits:
    """The labels of each part, before any image is looked for."""

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
            return cls(train, test, train, notes={"validation": share}, remarks=(NOT_HELD_OUT,))
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
        """This share of the training positives unknown, and with it all negatives; every item keeps a positive."""
        if not missing:
            return self
        hidden = hide(self.train, "ppl", keep=1.0 - missing, seed=seed, at_least_one=True)
        remark = f"{missing:.0%} of the training positives were hidden at random, and all negatives with them"
        return replace(self, train=hidden, truth=self.train).remarked(remark, missing=missing)

    def remarked(self, *remarks: str, **notes: Any) -> Splits:
        return replace(self, remarks=(*self.remarks, *remarks), notes=self.notes | notes)


class NamedSet(ABC):
    """A data set that is read in two steps: labels, then inputs for the items of each split, found by their ids."""

    name: ClassVar[str]

    @abstractmethod
    def splits(self) -> Splits: ...

    @abstractmethod
    def inputs(self, store: LabelStore, part: str) -> Inputs:
        """The inputs of the items of a part: "train" (which comes first), "validation" or "test"."""

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


@dataclass(frozen=True)
class Part:
    """A file of rows: features and labels."""

    features: Any  # [N, D], an array or a csr_array
    labels: LabelStore  # its ids are `part/row`, which is how inputs are found again


def part(
    name: str, features: Any, positives: Sequence[Sequence[int]], names: Sequence[str] | None, **more: Any
) -> Part:
    """The part called `name`; `more` are further arguments of `LabelStore.from_lists`."""
    ids = [f"{name}/{row}" for row in range(len(positives))]
    return Part(features, LabelStore.from_lists(list(positives), names=names, ids=ids, **more))


class FeatureRows(NamedSet):
    """A set whose items are rows of features in a training file and, perhaps, a test file."""

    validation: float
    tested: float = TESTED  # the share of the items that are held out where there is no test file
    seed: int
    _parts: dict[str, Part] | None = None

    def parts(self) -> dict[str, Part]:
        """ "train" and, if there is one, "test"."""
        raise NotImplementedError

    def read(self) -> dict[str, Part]:
        """The parts; read once, as labels and inputs come from the same files."""
        if self._parts is None:
            self._parts = self.parts()
            widths = {name: found.features.shape[1] for name, found in self._parts.items()}
            if len(set(widths.values())) > 1:
                raise UserError(
                    f"{self.name}: the parts have different numbers of features ({widths}); do they "
                    "belong to one data set?"
                )
        return self._parts

    def splits(self) -> Splits:
        parts = self.read()
        train = parts["train"].labels
        if "test" in parts:
            return Splits.held_out(train, parts["test"].labels, self.validation, self.seed)
        if not 0 <= self.tested < 1:
            raise UserError(f"test is {self.tested}; expected a file, or the share of the items to test on, below 1")
        if not self.tested:
            return Splits.held_out(train, train.take(slice(0, 0)), self.validation, self.seed)
        rest, tested = split(train, [1.0 - self.tested, self.tested], self.seed).parts
        splits = Splits.held_out(train.take(rest), train.take(tested), self.validation, self.seed)
        return splits.remarked(f"test: a stratified {self.tested:.0%} of the items, as no test file is given")

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        if not len(store):
            return Features(self.read()["train"].features[:0])
        file = str(store.ids[0]).partition("/")[0]  # validation items come from the training file
        rows = [int(str(item).partition("/")[2]) for item in store.ids]
        return Features(self.read()[file].features[rows])


def partial(whole: Splits, left: LabelStore, list_name: str) -> Splits:
    """The splits with the training labels of a published list from which positives were left out on purpose.

    What it does not list is unknown.
    """
    row = rows_by_id([str(image) for image in left.ids])
    lists, truth = left.lists(), whole.train.lists()
    kept = []
    for image, full in zip(whole.train.ids, truth, strict=True):
        if str(image) not in row:
            raise UserError(
                f"the list '{list_name}' lacks the training image '{image}'; expected the same images as in full"
            )
        labels = lists[row[str(image)]]
        if not set(labels) <= set(full):
            raise UserError(
                f"the list '{list_name}' gives '{image}' a label that the full list does not; do they "
                "belong to one data set?"
            )
        kept.append(labels)
    train = LabelStore.from_lists(kept, names=whole.train.names, ids=map(str, whole.train.ids), absent="unknown")
    remark = f"train: only the positives of the published list '{list_name}' are known"
    return replace(whole, train=train, truth=whole.train, published=None).remarked(remark, annotations=list_name)


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
