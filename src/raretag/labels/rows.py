"""Compressed rows: a set of labels for each item, in two flat arrays that can be memory-mapped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError

Ints: TypeAlias = NDArray[np.integer[Any]]
Bools: TypeAlias = NDArray[np.bool_]
Selection: TypeAlias = "Tensor | NDArray[Any] | slice | Sequence[int]"

_ENTRIES_AT_ONCE = 1 << 22  # work on dense blocks of at most this size, so that memory does not grow with N


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The labels of item i are `indices[indptr[i]:indptr[i + 1]]`, increasing."""

    indptr: Ints  # [N + 1] int64
    indices: Ints  # [n] int32

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices):
            array.flags.writeable = False

    @classmethod
    def of_pairs(cls, rows: Ints, columns: Ints, items: int, labels: int) -> Rows:
        """From (row, label) pairs in any order; a pair that comes twice counts once."""
        keys = rows.astype(np.int64) * labels + columns
        if not (keys[1:] > keys[:-1]).all():
            keys = np.unique(keys)
        row, column = np.divmod(keys, max(labels, 1))
        return cls.of_lengths(np.bincount(row, minlength=items), column)

    @classmethod
    def of_lengths(cls, lengths: Ints, indices: Ints) -> Rows:
        return cls(_starts(lengths), indices.astype(np.int32))

    @classmethod
    def of_mask(cls, mask: Bools) -> Rows:
        """The True entries of an [N, C] array."""
        return cls.of_lengths(mask.sum(axis=1), np.nonzero(mask)[1])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        if not parts:
            return cls.of_lengths(np.zeros(0, np.int64), np.zeros(0, np.int32))
        return cls.of_lengths(np.concatenate([p.lengths for p in parts]), np.concatenate([p.indices for p in parts]))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def lengths(self) -> Ints:
        return np.diff(self.indptr)

    @property
    def bytes(self) -> int:
        return self.indptr.nbytes + self.indices.nbytes

    @property
    def row(self) -> Ints:
        """The row number of each entry of `indices`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def same(self, other: Rows) -> bool:
        return np.array_equal(self.indptr, other.indptr) and np.array_equal(self.indices, other.indices)

    def span(self, start: int, stop: int) -> Rows:
        """Rows start..stop-1, without a copy of their labels."""
        indptr = self.indptr[start : stop + 1]
        return Rows(indptr - indptr[0], self.indices[indptr[0] : indptr[-1]])

    def take(self, rows: Ints) -> Rows:
        starts = self.indptr[rows]
        lengths = self.indptr[rows + 1] - starts
        indptr = _starts(lengths)
        places = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Rows(indptr, self.indices[places])

    def kept(self, mask: Bools) -> Rows:
        """Only the entries where the mask, one bool for each of `indices`, is True."""
        before = _starts(mask)  # how many entries are kept before each place
        return Rows(before[self.indptr], self.indices[mask])

    def mark(self, array: NDArray[Any], value: object) -> None:
        """Write the value at all entries into a contiguous [N, C] array."""
        if array.size:
            offsets = np.arange(len(self)) * array.shape[1]
            array.reshape(-1)[np.repeat(offsets, self.lengths) + self.indices] = value

    def keys(self, labels: int) -> Ints:
        """One int64 for each entry, increasing: row * C + label."""
        return self.row * labels + self.indices

    def lists(self) -> list[list[int]]:
        ends, flat = self.indptr.tolist(), self.indices.tolist()
        return [flat[start:stop] for start, stop in itertools.pairwise(ends)]


def _starts(lengths: NDArray[Any]) -> Ints:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def blocks(items: int, labels: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows small enough to be looked at as a dense [b, C] array."""
    size = max(1, _ENTRIES_AT_ONCE // max(labels, 1))
    return ((start, min(start + size, items)) for start in range(0, items, size))


def numbers(rows: Selection, items: int) -> Ints:
    """Row numbers [B] int64 from whatever a caller selects rows with."""
    if isinstance(rows, slice):
        return np.arange(items)[rows]
    chosen = np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)
    if chosen.dtype == np.bool_ and chosen.shape == (items,):
        return np.nonzero(chosen)[0]
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise UserError(
            f"rows of type {chosen.dtype} and shape {chosen.shape}; expected a vector of row numbers, "
            f"a slice, or a bool for each of the {items} items"
        )
    if chosen.size and (chosen.min() < 0 or chosen.max() >= items):
        wrong = chosen[(chosen < 0) | (chosen >= items)][0]
        raise UserError(f"there is no row {wrong}; expected numbers from 0 to {items - 1}")
    return chosen.astype(np.int64)
