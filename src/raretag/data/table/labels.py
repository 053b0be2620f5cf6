"""Labels of all rows, collected batch by batch: from one column of lists, or from one column per label."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from raretag.core.errors import UserError, some
from raretag.core.registry import nearest
from raretag.data.files import shown
from raretag.data.table.cells import BLANK, NEGATIVE, POSITIVE, UNKNOWN, WRONG, CellError, Cells, states
from raretag.labels.entries import Absent
from raretag.labels.store import LabelStore

Listed: TypeAlias = "list[list[str] | None]"

_MOST_BLANK = 200_000_000  # labels of rows without any, which must be stored one by one


class ListedLabels:
    """One column lists what an item has, another one perhaps what it has not."""

    def __init__(
        self, cells: Cells, names: Sequence[str] | None, place: Callable[[int], str], with_negatives: bool
    ) -> None:
        self.cells, self.place, self.with_negatives = cells, place, with_negatives
        self.given = names
        self.numbers: dict[str, int] = {name: number for number, name in enumerate(names or ())}
        self.entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]] = []  # row, column, state
        self.items, self.empty = 0, 0
        self.unlabelled: list[int] = []  # rows without a list of either kind

    def add(self, positives: pa.Array, negatives: pa.Array | None) -> None:
        present = self._lists(positives)
        absent = None if negatives is None else self._lists(negatives)
        if absent is not None:
            self._check_states(present, absent)
        for row, yes in enumerate(present):
            if not yes:
                silent = yes is None and not (absent and absent[row])
                self.empty += not silent
                if silent:
                    self.unlabelled.append(self.items + row)
        self._keep(present, POSITIVE)
        self._keep(absent or [], NEGATIVE)
        self.items += len(present)

    def _check_states(self, present: Listed, absent: Listed) -> None:
        for row, (yes, no) in enumerate(zip(present, absent, strict=True)):
            both = set(yes or ()) & set(no or ())
            if both:
                where = self.place(self.items + row)
                raise UserError(f"{where}: the label {min(both)!r} is positive and negative; expected one of them")

    def _keep(self, lists: Listed, state: int) -> None:
        lengths = [len(row or ()) for row in lists]
        labels = itertools.chain.from_iterable(row or () for row in lists)
        rows = self.items + np.repeat(np.arange(len(lists)), lengths)
        known = self.numbers
        if self.given is None:
            columns = np.array([known.setdefault(label, len(known)) for label in labels], np.int64)
        else:
            columns = np.array([known.get(label, -1) for label in labels], np.int64)
            if columns.size and columns.min() < 0:
                self._refuse(lists, int(np.argmin(columns)), rows)
        self.entries.append((rows, columns, np.full(len(rows), state, np.float32)))

    def _refuse(self, lists: Listed, place: int, rows: NDArray[np.int64]) -> None:
        assert self.given is not None
        label = next(itertools.islice(itertools.chain.from_iterable(row or () for row in lists), place, None))
        where = self.place(int(rows[place]))
        raise UserError(f"{where}: the label {label!r} is not in data.names; {nearest(label, self.given)}")

    def _lists(self, column: pa.Array) -> Listed:
        try:
            return self.cells.lists(column)
        except CellError as error:
            raise UserError(
                f"{self.place(self.items + error.row)}: {shown(error.value)} is not a list of labels; "
                "expected names everywhere or numbers everywhere"
            ) from None

    def store(self, keep: NDArray[np.int64], ids: Iterable[str] | None, absent: Absent | None) -> LabelStore:
        """The labels of the rows to keep."""
        absent = absent or ("unknown" if self.with_negatives else "negative")
        names = list(self.numbers) if self.given is not None else in_order(self.numbers)
        place = np.empty(len(names), np.int64)
        place[[self.numbers[name] for name in names]] = np.arange(len(names))
        rows, columns, values = (np.concatenate(arrays) for arrays in zip(*self.entries, strict=True))
        columns = place[columns]
        if absent == "negative" and self.unlabelled:
            if len(self.unlabelled) * len(names) > _MOST_BLANK:
                raise UserError(
                    f"{len(self.unlabelled):,} rows have no labels at all; drop them, or set data.absent=unknown"
                )
            rows = np.concatenate([rows, np.repeat(np.array(self.unlabelled, np.int64), len(names))])
            columns = np.concatenate([columns, np.tile(np.arange(len(names)), len(self.unlabelled))])
            values = np.concatenate([values, np.full(len(rows) - len(values), np.nan, np.float32)])
        if absent == "negative" and self.with_negatives:
            stored = values != 0  # a stored negative is what an absent label is anyway
            rows, columns, values = rows[stored], columns[stored], values[stored]
        matrix = sparse.coo_array((values, (rows, columns)), shape=(self.items, len(names))).tocsr()
        return LabelStore.from_sparse(matrix[keep], absent, names, ids)

    def remarks(self, absent: Absent | None) -> list[str]:
        settled = absent or ("unknown" if self.with_negatives else "negative")
        reason = ", as there is a column of negatives" if self.with_negatives else ", as nothing says otherwise"
        why = "" if absent else reason
        lines = [f"a label that an item does not list is taken as {settled}{why} (data.absent)"]
        if self.empty and settled == "negative":
            lines.append(f"items that list no label: {self.empty:,}; they are taken to have none")
        if self.unlabelled:
            lines.append(f"{len(self.unlabelled):,} items have null labels: all of theirs are unknown")
        return lines


class LabelColumns:
    """One column per label, with 1, 0, and -1 or nothing for unknown."""

    def __init__(self, names: Sequence[str], place: Callable[[int], str]) -> None:
        self.names, self.place = tuple(names), place
        self.blocks: list[NDArray[np.int8]] = []
        self.items = 0

    def add(self, batch: pa.RecordBatch) -> None:
        block = np.stack([states(batch.column(name)) for name in self.names], axis=1)  # [rows, C]
        if (block == WRONG).any():
            row, column = np.argwhere(block == WRONG)[0]
            value = batch.column(self.names[column])[int(row)].as_py()
            raise UserError(
                f"{self.place(self.items + int(row))}: {shown(value)} in the label column {self.names[column]!r}; "
                "expected 1, 0, or -1 or nothing for unknown"
            )
        self.blocks.append(block)
        self.items += len(block)

    def store(self, keep: NDArray[np.int64], ids: Iterable[str] | None, absent: Absent | None) -> LabelStore:
        """The labels of the rows to keep."""
        found = np.concatenate(self.blocks)[keep]
        found[found == BLANK] = NEGATIVE if absent == "negative" else UNKNOWN
        return LabelStore.from_dense(found, self.names, ids)

    def remarks(self, absent: Absent | None) -> list[str]:
        count = {state: sum(int((block == state).sum()) for block in self.blocks) for state in (BLANK, NEGATIVE)}
        lines = []
        if count[BLANK]:
            settled = absent or "unknown"
            lines.append(f"{count[BLANK]:,} blank cells in label columns are taken as {settled} (data.absent)")
            if count[NEGATIVE] == 0 and absent is None:
                lines.append("no label column holds a 0: if a blank cell means no, set data.absent=negative")
        return lines


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted as texts, or as numbers if all of them are."""
    names = list(names)
    if all(name.isascii() and name.isdigit() and len(name) < 10 for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def look_alikes(names: Iterable[str]) -> list[str]:
    """A warning if labels are one to people but not to a program: 'Cat' and 'cat', 'hot dog' and 'hot_dog'."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(re.sub(r"[\s_-]+", " ", name).casefold(), []).append(name)
    pairs = [" and ".join(map(repr, alike)) for alike in found.values() if len(alike) > 1]
    return [f"warning: labels that differ only in how they are written: {some(pairs, 5)}"] if pairs else []
