"""Labels as people hold them in Python, and the parts they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.reading.parts import PART_OF, Parts, divide, part_of
from raretag.labels.collection import DataSet, Inputs, Items, Selected
from raretag.labels.entries import Absent
from raretag.labels.store import LabelStore

Split = Sequence[str] | Mapping[str, Sequence[int]] | None


def as_labels(
    labels: Any,
    *,
    names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    negatives: Any = None,
    absent: Absent | None = None,
) -> LabelStore:
    """A store of an array [N, C] (1, 0; NaN, -1, -100 unknown), a scipy matrix, or a list of labels for each item."""
    if isinstance(labels, LabelStore):
        if names is not None or ids is not None or negatives is not None or absent is not None:
            raise UserError("a LabelStore has its names, ids and states already; give none of them beside it")
        return labels
    if sparse.issparse(labels):
        return LabelStore.from_sparse(labels, absent or "negative", names, ids)
    if isinstance(labels, (np.ndarray, Tensor)):
        return LabelStore.from_dense(labels, names, ids)
    return LabelStore.from_lists(labels, names, ids, negatives, absent)


def data_set(inputs: Inputs, labels: LabelStore, split: Split, seed: int, name: str) -> DataSet:
    """The parts that `split` names (a word for each item, or rows by word); those it lacks are dealt."""
    items = Items(inputs, labels)  # checks that both have the same length
    parts = divide(labels, _words(split, len(items)), seed)
    train, validation, test = (Items(Selected(inputs, rows), labels.take(rows)) for rows in parts.in_order())
    return DataSet(name, train, validation, test, notes=_notes(labels, parts, seed), remarks=tuple(parts.remarks))


def _notes(labels: LabelStore, parts: Parts, seed: int) -> dict[str, Any]:
    return {"source": "python", "labels_sha256": labels.fingerprint(), "seed": seed, **parts.notes}


def _words(split: Split, items: int) -> list[str] | None:
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
