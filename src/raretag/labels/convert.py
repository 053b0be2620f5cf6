"""From what users have (a dense array, a sparse matrix, lists of labels) to entries in three states.

This is the door: NaN, -1 and -100 become "unknown" here and no such number lives behind it.
"""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.labels.entries import Absent, Entries, pack
from raretag.labels.rows import Bools, Ints, Rows, blocks

Labels: TypeAlias = "Sequence[Iterable[str]] | Sequence[Iterable[int]]"

_EXPECTED = "expected 1 (positive), 0 (negative), or NaN, -1 or -100 (unknown)"


def from_dense(array: Any) -> Entries:
    """From an [N, C] array of numpy or torch."""
    if sparse.issparse(array):
        raise UserError("got a sparse matrix; expected a dense array: use LabelStore.from_sparse")
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        array = (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    elif isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan)
    array = np.asarray(array)
    if array.ndim != 2:
        raise UserError(f"labels have shape {array.shape}; expected [N, C], one row for each item")
    items, labels = array.shape
    positives, bits = [], [np.zeros((0, (labels + 7) // 8), np.uint8)]
    for start, stop in blocks(items, labels):
        positive, negative, wrong = _states(array[start:stop])
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            value = array[start + row, column]
            raise UserError(f"row {start + row}, column {column} holds {value}; {_EXPECTED}")
        positives.append(Rows.of_mask(positive))
        bits.append(pack(positive | negative))
    return Entries.of_bits(Rows.joined(positives), labels, np.concatenate(bits))


def from_sparse(matrix: Any, absent: Absent) -> Entries:
    """From a sparse matrix [N, C] of scipy, with `absent` for what is not stored."""
    _check_absent(absent)
    if not sparse.issparse(matrix):
        raise UserError(f"got {type(matrix).__name__}; expected a scipy sparse matrix, or use LabelStore.from_dense")
    if matrix.ndim != 2:
        raise UserError(f"labels have shape {matrix.shape}; expected [N, C], one row for each item")
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.sum_duplicates()
    stored = Rows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
    positive, negative, wrong = _states(matrix.data)
    if wrong.any():
        place = int(np.argmax(wrong))
        row, column, value = stored.row[place], stored.indices[place], matrix.data[place]
        raise UserError(f"row {row}, column {column} holds {value}; {_EXPECTED}; a label listed twice adds up to 2")
    exceptions = negative if absent == "unknown" else ~(positive | negative)
    listed = stored.kept(exceptions) if exceptions.any() else None
    return Entries.of_lists(stored.kept(positive), matrix.shape[1], absent, listed)


def from_lists(
    rows: Labels, negatives: Labels | None, absent: Absent | None, names: tuple[str, ...] | None, labels: int | None
) -> tuple[Entries, tuple[str, ...] | None]:
    """From lists of label names or of label indices; also the names, collected where none are given."""
    absent = ("negative" if negatives is None else "unknown") if absent is None else _check_absent(absent)
    if negatives is not None and len(negatives) != len(rows):
        raise UserError(
            f"{len(rows)} lists of positives and {len(negatives)} of negatives; expected one of each per item"
        )
    given = [_flat(rows), *([] if negatives is None else [_flat(negatives)])]
    kinds = {isinstance(flat[0], str) for _, flat in given if flat}
    if len(kinds) > 1:
        raise UserError("positives and negatives must both be names or both be indices; got one of each")
    if kinds == {True} and names is None:
        names = tuple(sorted({str(label) for _, flat in given for label in flat}))
    if kinds == {True}:
        assert names is not None
        numbered = [(lengths, _numbers(lengths, flat, names)) for lengths, flat in given]
    else:
        numbered = [(lengths, np.array(flat, np.int64)) for lengths, flat in given]
        highest = max((int(flat.max()) for _, flat in numbered if flat.size), default=-1)
        labels = len(names) if names is not None else highest + 1 if labels is None else labels
        for lengths, flat in numbered:
            _check_range(lengths, flat, labels)
    count = len(names) if names is not None else labels or 0
    sets = [
        Rows.of_pairs(np.repeat(np.arange(len(rows)), lengths), flat, len(rows), count) for lengths, flat in numbered
    ]
    if negatives is None:
        return Entries.of_lists(sets[0], count, absent, None), names
    both = np.intersect1d(sets[0].keys(count), sets[1].keys(count), assume_unique=True)
    if both.size:
        row, label = divmod(int(both[0]), count)
        which = f"label {label}" if names is None else f"label {names[label]!r}"
        raise UserError(f"row {row} lists {which} as positive and as negative; expected one of the two")
    return Entries.of_lists(sets[0], count, absent, sets[1] if absent == "unknown" else None), names


def unique(words: Iterable[Any], what: str) -> tuple[str, ...]:
    """Names of labels or ids of items: texts, none of them twice."""
    if isinstance(words, str):
        raise UserError(f"the {what}s are the text {words!r}; expected a list of texts")
    result = tuple(words)
    wrong = [word for word in result if not isinstance(word, str)]
    if wrong:
        raise UserError(f"{what} {wrong[0]!r} is of type {type(wrong[0]).__name__}; expected a text: use str()")
    if len(set(result)) < len(result):
        twice, times = Counter(result).most_common(1)[0]
        raise UserError(f"{what} {twice!r} occurs {times} times; expected each {what} once")
    return result


def _states(values: NDArray[Any]) -> tuple[Bools, Bools, Bools]:
    """Which values are positive, which negative, and which nothing that we know."""
    if values.dtype.kind not in "biuf":
        raise UserError(f"labels have type {values.dtype}; expected bool, integers or floats")
    positive, negative = values == 1, values == 0
    wrong = ~(positive | negative)
    if wrong.any():
        wrong &= ~((values == -1) | (values == -100) | np.isnan(values))
    return positive, negative, wrong


def _check_absent(absent: Absent) -> Absent:
    if absent not in ("negative", "unknown"):
        raise UserError(f"absent is {absent!r}; expected 'negative' or 'unknown', the state of what is not listed")
    return absent


def _flat(rows: Labels) -> tuple[Ints, list[Hashable]]:
    """How many labels each row has, and all of them in a line: either names or indices."""
    for number, row in enumerate(rows):
        if isinstance(row, (str, int)) or not hasattr(row, "__len__"):
            raise UserError(f"row {number} is {row!r}; expected a list of labels")
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))  # type: ignore[arg-type]
    flat: list[Hashable] = list(itertools.chain.from_iterable(rows))
    types = set(map(type, flat))
    names = all(issubclass(kind, str) for kind in types)
    if not names and not all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in types):
        wanted = str if isinstance(flat[0], str) else (int, np.integer)
        place = next(i for i, label in enumerate(flat) if not isinstance(label, wanted) or isinstance(label, bool))
        raise UserError(
            f"row {_row_of(lengths, place)} lists {flat[place]!r} of type {type(flat[place]).__name__}; "
            "expected label names everywhere or label indices everywhere"
        )
    return lengths, flat


def _numbers(lengths: Ints, flat: Sequence[Any], names: tuple[str, ...]) -> Ints:
    table = {name: number for number, name in enumerate(names)}
    numbers = np.fromiter((table.get(label, -1) for label in flat), np.int64, len(flat))
    if numbers.size and numbers.min() < 0:
        place = int(np.argmin(numbers))
        near = difflib.get_close_matches(flat[place], names, n=1, cutoff=0.0)
        hint = f"the nearest name is {near[0]!r}" if near else "there are no names"
        raise UserError(f"row {_row_of(lengths, place)} lists the label {flat[place]!r}, which is not a name; {hint}")
    return numbers


def _check_range(lengths: Ints, flat: Ints, labels: int) -> None:
    wrong = (flat < 0) | (flat >= labels)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise UserError(
            f"row {_row_of(lengths, place)} lists label {flat[place]}; expected indices from 0 to {labels - 1}"
        )


def _row_of(lengths: Ints, place: int) -> int:
    return int(np.searchsorted(np.cumsum(lengths), place, side="right"))
