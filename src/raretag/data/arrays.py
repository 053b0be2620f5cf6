"""From objects in Python to a data set: arrays, DataFrames, texts, or any torch Dataset, and their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.dataset import PART_OF, DataSet, Inputs, Items, TensorInputs, divide, part_of
from raretag.data.inputs.features import Features, not_finite
from raretag.data.inputs.representation import Representation, TextOptions
from raretag.labels.entries import Absent
from raretag.labels.store import LabelStore

Split = Sequence[str] | Mapping[str, Sequence[int]] | None


def from_arrays(
    inputs: Any,
    labels: Any,
    *,
    label_names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    negatives: Any = None,
    absent: Absent | None = None,
    split: Split = None,
    validation: float | None = None,
    test: float | None = None,
    seed: int = 0,
    name: str = "arrays",
    names: Sequence[str] | None = None,
    prior: Any = None,
) -> DataSet:
    """A data set from inputs and labels in memory.

    Args:
        inputs: an array or tensor [N, ...], a scipy matrix [N, D], a DataFrame of numbers, or a list of texts, which
            become TF-IDF weights learned from the training part, beside vectors of a sentence encoder where one is
            installed.
        labels: an array or DataFrame [N, C] (1 positive, 0 negative; NaN, -1, -100 unknown), a scipy matrix, a list of
            labels per item (names or indices), or a `LabelStore`.
        label_names: one name per label. Default: the columns of a DataFrame, the names in the lists, or "0", "1", ...
            (`names` is an older spelling.)
        ids: one text per item. Default: row numbers.
        negatives: where labels are lists, the labels that each item is known not to have.
        absent: where labels are lists or a scipy matrix, what a label is that is not mentioned: "negative" or
            "unknown". Default: "unknown" if there are negatives, else "negative".
        split: a word per item ("train", "validation", "test"), or {"train": rows, "test": rows}. Parts that it lacks
            are dealt from the training items, stratified so that rare labels are in every part.
        validation, test: the shares of the training items that are dealt to these parts. Default: 10 % and 20 % of all
            items. With `test=0.0` the test part is empty; with `validation=0.0` the training items stand in for it.
        seed: decides which items are dealt to which part.
        name: for reports and records.
        prior: scores from outside, [N, C] with NaN where there is none, or a file of item, label, score
            (docs/prior.md).

    >>> data = from_arrays(np.eye(20), [["cat"], ["cat", "dog"]] * 10, test=0.0)
    >>> data.train.labels.names, [len(part) for part in (data.train, data.validation, data.test)]
    (('cat', 'dog'), [18, 2, 0])
    """
    inputs = plain(inputs)
    store = as_labels(labels, names=label_names or names, ids=ids, negatives=negatives, absent=absent)
    if prior is not None:
        from raretag.data.prior import Prior  # most data has none

        if store.given_ids is None:  # the parts must still know which rows they are
            store = LabelStore(store.entries, store.given_names, tuple(str(row) for row in range(len(store))))
        prior = Prior.given(prior, store)
    words = _words(split, len(store))
    remarks: list[str] = [] if prior is None else [prior.remark(store)]
    if are_texts(inputs):
        rows = divide(store, words, seed, validation, test).rows["train"]  # the words come from the training part
        chosen = Representation(TextOptions(), inputs)
        made = chosen.fit([inputs[row] for row in rows.tolist()]).inputs(inputs)
        remarks += chosen.remarks()
    else:
        made = as_inputs(inputs)
    data = data_set(made, store, words, seed, name, validation, test)
    data = replace(data, remarks=(*data.remarks, *remarks), prior=prior)
    if isinstance(inputs, _Frame):
        data.notes["columns"] = {"features": inputs.names}  # so that tables of new items are read by their names
    return data


def from_torch(
    dataset: Any,
    labels: Any,
    *,
    label_names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    negatives: Any = None,
    absent: Absent | None = None,
    split: Split = None,
    validation: float | None = None,
    test: float | None = None,
    seed: int = 0,
    name: str = "dataset",
    names: Sequence[str] | None = None,
) -> DataSet:
    """A data set from any map-style torch Dataset; its items are read when a batch needs them.

    Random augmentation inside the dataset is not keyed by (seed, item, epoch): such runs do not repeat exactly.

    Args:
        dataset: `dataset[i]` is a tensor, or a tuple that begins with one, of one shape for all items.
        labels: of all items, and everything else: as in `from_arrays`.

    >>> pairs = torch.utils.data.TensorDataset(torch.zeros(20, 3), torch.zeros(20))
    >>> data = from_torch(pairs, np.tile([[1, 0], [0, 1]], (10, 1)), label_names=["cat", "dog"])
    >>> data.test.inputs.batch(torch.arange(4)).shape
    torch.Size([4, 3])
    """
    store = as_labels(labels, names=label_names or names, ids=ids, negatives=negatives, absent=absent)
    return data_set(DatasetInputs(dataset), store, _words(split, len(store)), seed, name, validation, test)


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

    def content(self, rows: Tensor) -> None:
        """Not known: a dataset may change its items at random, and reading them all may take long."""

    def _tensor(self, row: int) -> Tensor:
        item = self.dataset[row]
        value = item[0] if isinstance(item, (tuple, list)) else item
        if not isinstance(value, Tensor):
            raise UserError(
                f"item {row} of the dataset is a {type(value).__name__}; expected a tensor, or (tensor, ...)"
            )
        return value.float()


def as_labels(
    labels: Any,
    *,
    names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    negatives: Any = None,
    absent: Absent | None = None,
) -> LabelStore:
    """A store of an array or DataFrame [N, C] (1, 0; NaN, -1, -100 unknown), a scipy matrix, or a list per item."""
    labels = plain(labels)
    if isinstance(labels, _Frame):
        labels, names = labels.values, names or labels.names
    if isinstance(labels, LabelStore):
        if names is not None or ids is not None or negatives is not None or absent is not None:
            raise UserError("a LabelStore has its names, ids and states already; give none of them beside it")
        return labels
    if sparse.issparse(labels):
        return LabelStore.from_sparse(labels, absent or "negative", names, ids)
    if isinstance(labels, (np.ndarray, Tensor)):
        return LabelStore.from_dense(labels, names, ids)
    return LabelStore.from_lists(labels, names, ids, negatives, absent)


def as_inputs(values: Any) -> Inputs:
    """Inputs of an array, a tensor, a scipy matrix or a DataFrame."""
    if isinstance(values, _Frame):
        bad = not_finite(values.values)
        if bad:
            raise UserError(f"item {min(bad)} holds a blank, a NaN or an infinite number; expected finite inputs")
        return Features(values.values.astype(np.float32), names=values.names)
    if sparse.issparse(values):
        return Features(values)
    if not isinstance(values, (np.ndarray, Tensor)):
        raise UserError(f"inputs are a {type(values).__name__}; expected an array, a tensor, a scipy matrix, or texts")
    tensor = torch.as_tensor(np.require(values, requirements="W") if isinstance(values, np.ndarray) else values)
    if tensor.ndim < 2:
        raise UserError(f"inputs have shape {tuple(tensor.shape)}; expected [N, ...], one row for each item")
    tensor = tensor.float()
    if not tensor.isfinite().all():
        row = int((~tensor.flatten(1).isfinite().all(1)).nonzero()[0])
        raise UserError(f"item {row} holds a NaN or an infinite number; expected finite inputs")
    return TensorInputs(tensor)


def data_set(
    inputs: Inputs,
    labels: LabelStore,
    words: Sequence[str] | None,
    seed: int,
    name: str,
    validation: float | None = None,
    test: float | None = None,
) -> DataSet:
    """The parts that `words` name, one per item; those that they lack are dealt."""
    Items(inputs, labels)  # checks that both have the same length
    parts = divide(labels, words, seed, validation, test)
    notes = {"source": "python", "labels_sha256": labels.fingerprint(), "seed": seed, **parts.notes}
    return DataSet(name, *parts.items(inputs, labels), notes=notes, remarks=tuple(parts.remarks))


class _Frame:
    """A DataFrame of numbers: the names of its columns, and an array [N, D]."""

    def __init__(self, frame: Any) -> None:
        self.names = [str(name) for name in frame.columns]
        try:
            self.values: NDArray[np.float64] = np.asarray(_numbers(frame), np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"the {type(frame).__name__} with the columns {', '.join(self.names[:8])} holds more than numbers "
                f"({error}); expected columns of numbers"
            ) from None


def _numbers(frame: Any) -> Any:
    try:
        return frame.to_numpy(dtype="float64", na_value=float("nan"))  # pandas, with its own mark of what is missing
    except TypeError:
        return frame.to_numpy()  # polars and others


def plain(values: Any) -> Any:
    """DataFrames as names and numbers, a column of one as a list; anything else as it is. Imports no such package."""
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        return _Frame(values)
    if isinstance(values, np.ndarray):
        return values.tolist() if values.ndim == 1 and values.dtype.kind in "UO" else values
    return list(values) if hasattr(values, "to_numpy") else values


def are_texts(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and len(values) > 0 and all(isinstance(value, str) for value in values)


def _words(split: Split, items: int) -> list[str] | None:
    """The part of each item, as a word."""
    if split is None:
        return None
    if not isinstance(split, Mapping):
        words = part_of([str(word) for word in split], lambda row: f"split, item {row}")
        if len(words) != items:
            raise UserError(f"split has {len(words)} words for {items} items; expected one for each")
        return words
    words = [""] * items
    for word, rows in split.items():
        part = PART_OF.get(str(word).lower())
        if part is None:
            raise UserError(f"split names {word!r}; expected train, validation or test")
        chosen: NDArray[np.int64] = np.asarray(rows, np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= items):
            raise UserError(f"split['{word}'] has row {chosen.max()}; expected rows from 0 to {items - 1}")
        for row in chosen.tolist():
            if words[row]:
                raise UserError(f"split puts item {row} into {words[row]} and {part}; expected each item once")
            words[row] = part
    if "" in words:
        raise UserError(f"split leaves out item {words.index('')}; expected every item in one part")
    return words
