"""From a `datasets.Dataset` of Hugging Face, or a DatasetDict of them; the package itself is not needed here.

What is used: `column_names`, `features`, `len()`, and items and columns by `[]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.registry import nearest
from raretag.data.arrays import as_labels, data_set, from_arrays
from raretag.data.dataset import DataSet, part_of
from raretag.data.inputs.images import Augment, Fit, Images, in_colour, squared
from raretag.labels.entries import Absent


def from_huggingface(
    dataset: Any,
    *,
    labels: str | Sequence[str],
    text: str | None = None,
    images: str | None = None,
    features: str | None = None,
    negatives: str | None = None,
    absent: Absent | None = None,
    size: int = 128,
    fit: Fit = "resize",
    augment: bool = True,
    validation: float | None = None,
    test: float | None = None,
    seed: int = 0,
    name: str = "huggingface",
) -> DataSet:
    """A data set from a `datasets.Dataset`, or from a DatasetDict, whose splits are kept; those it lacks are dealt.

    Args:
        dataset: a `datasets.Dataset`, or a mapping of split names to such.
        labels: the column that lists the labels of an item, or one column per label. Names come from `ClassLabel`.
        text, images, features: the one column of inputs: texts, Pillow images, or lists of numbers.
        negatives: the column of labels that an item is known not to have.
        absent: what a label is that is not mentioned, as in `from_arrays`.
        size, fit, augment: of images: their side in pixels, "resize" or "crop", and random changes in training.
        validation, test, seed, name: as in `from_arrays`.

    >>> class Rows(dict):  # stands for datasets.Dataset, which need not be installed here
    ...     column_names, features, __len__ = ["text", "tags"], {"tags": None}, lambda self: 20
    >>> rows = Rows(text=["a red car", "a blue bird"] * 10, tags=[["car"], ["bird"]] * 10)
    >>> from_huggingface({"train": rows, "test": rows}, text="text", labels="tags").train.labels.names
    ('bird', 'car')
    """
    given = [column for column in (text, images, features) if column is not None]
    if len(given) != 1:
        raise UserError(f"{len(given)} input columns were named; expected one of text=, images= or features=")
    splits = dict(dataset) if isinstance(dataset, Mapping) else {"": dataset}
    for split in splits.values():
        wanted = [*given, *([labels] if isinstance(labels, str) else labels), *([negatives] if negatives else [])]
        for column in wanted:
            if column not in split.column_names:
                raise UserError(f"the dataset has no column '{column}'; {nearest(column, split.column_names)}")
    words = None if "" in splits else [key for key, split in splits.items() for _ in range(len(split))]
    one = next(iter(splits.values()))
    if isinstance(labels, str):
        names = class_names(one, labels)
        lists = [list(row) if isinstance(row, (list, tuple)) else [row] for row in _joined(splits, labels)]
        refused = None if negatives is None else [list(row) for row in _joined(splits, negatives)]
        store = as_labels(lists, names=names, negatives=refused, absent=absent)
    else:
        dense = np.stack([np.array(_joined(splits, column), np.float64) for column in labels], axis=1)  # None is NaN
        store = as_labels(dense, names=list(labels))
    if images is not None:
        pictures = Pictures(
            list(splits.values()), images, size=size, fit=fit, augment=Augment(seed) if augment else None
        )
        parts = None if words is None else part_of(words, lambda row: f"item {row}")
        return data_set(pictures, store, parts, seed, name, validation, test)
    values: Any = _joined(splits, given[0])
    if features is not None:
        values = np.asarray(values, np.float32)
    return from_arrays(values, store, split=words, validation=validation, test=test, seed=seed, name=name)


def class_names(dataset: Any, column: str) -> list[str] | None:
    """The names of a `ClassLabel`, or of a sequence of them."""
    feature = dataset.features[column]
    feature = feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature)
    names = getattr(feature, "names", None)
    return None if names is None else list(names)


def _joined(splits: Mapping[str, Any], column: str) -> list[Any]:
    return [value for split in splits.values() for value in split[column]]


class Pictures(Images):
    """Images that a dataset decodes; after that, they are treated as images from files are."""

    def __init__(self, datasets: Sequence[Any], column: str, *, size: int, fit: Fit, augment: Augment | None) -> None:
        super().__init__((), size=size, fit=fit, augment=augment)
        self.datasets, self.column = datasets, column
        self.ends = np.cumsum([len(dataset) for dataset in datasets])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def content(self, rows: Tensor) -> None:
        """Not known: all pictures would have to be decoded for it."""

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:
        part = int(np.searchsorted(self.ends, row, side="right"))
        item = self.datasets[part][row - (int(self.ends[part - 1]) if part else 0)][self.column]
        if not isinstance(item, Image.Image):
            raise UserError(f"item {row} of '{self.column}' is a {type(item).__name__}; expected a Pillow image")
        return squared(in_colour(item), side, self.fit)
