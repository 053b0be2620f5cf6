"""Changes to the labels of a data set that cannot be edited itself: a CSV of item, label and state.

    item,label,state,was
    2008_000023,sofa,positive,unknown

`was` is the state of the label when somebody decided; where the data set has changed since, the line is left out, with
a remark.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy import sparse

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.core.registry import nearest
from raretag.labels.store import LabelStore

State: TypeAlias = Literal["positive", "negative", "unknown"]
COLUMNS = ("item", "label", "state", "was")
_VALUES: dict[str, float] = {"positive": 1.0, "negative": 0.0, "unknown": np.nan}


@dataclass(frozen=True)
class Correction:
    item: str
    label: str
    state: State
    was: State | None = None


def read(path: Path) -> list[Correction]:
    """The corrections in a file; a mistake in it is refused with its line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS[:3] if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(f"'{path}' has no column {', '.join(missing)}; expected {', '.join(COLUMNS)}")
            return [_correction(row, f"{path.name}, line {reader.line_num}") for row in reader]
    except OSError as error:
        raise UserError(f"the corrections '{path}' cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"'{path}' is not a CSV in UTF-8: {error}") from None


def _correction(row: Mapping[str, str | None], where: str) -> Correction:
    item, label, state, was = (str(row.get(name) or "").strip() for name in COLUMNS)
    if state not in get_args(State) or was not in ("", *get_args(State)):
        wrong = state if state not in get_args(State) else was
        raise UserError(f"{where}: the state {wrong!r}; expected {', '.join(get_args(State))}")
    return Correction(item, label, state, was or None)  # type: ignore[arg-type]


def write(path: Path, corrections: Iterable[Correction]) -> None:
    """Complete or not at all."""
    with replacing(path) as new, new.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((one.item, one.label, one.state, one.was or "") for one in corrections)


class Places:
    """Where an item and a label stand in a store, and what is there."""

    def __init__(self, store: LabelStore) -> None:
        self.store = store
        self.row = {str(item): row for row, item in enumerate(store.ids)}
        self.column = {name: column for column, name in enumerate(store.names)}

    def state(self, item: str, label: str) -> State:
        targets = self.store.targets([self.row[item]])
        column = self.column[label]
        if not targets.observed[0, column]:
            return "unknown"
        return "positive" if targets.value[0, column] == 1 else "negative"


def corrected(store: LabelStore, corrections: Iterable[Correction]) -> tuple[LabelStore, list[Correction]]:
    """The store with its corrections, and those that it has outgrown. Items of other parts are passed over."""
    places = Places(store)
    changes: dict[tuple[int, int], State] = {}
    outgrown = []
    for one in corrections:
        if one.label not in places.column:
            raise UserError(f"a correction names the label '{one.label}'; {nearest(one.label, places.column)}")
        if one.item not in places.row:
            continue
        now = places.state(one.item, one.label)
        if one.was is not None and now not in (one.was, one.state):
            outgrown.append(one)
        else:
            changes[places.row[one.item], places.column[one.label]] = one.state
    return (changed(store, changes) if changes else store), outgrown


def changed(store: LabelStore, changes: Mapping[tuple[int, int], State]) -> LabelStore:
    """The same store with other states at some (row, column)."""
    matrix = store.sparse().tocoo()
    rows, columns = np.array(list(changes), np.int64).reshape(-1, 2).T
    stays = ~np.isin(matrix.row.astype(np.int64) * store.labels + matrix.col, rows * store.labels + columns)
    listed = np.array([state != store.absent for state in changes.values()], np.bool_)
    values = np.array([_VALUES[state] for state in changes.values()], np.float32)[listed]
    entries = (
        np.concatenate([matrix.data[stays], values]),
        (
            np.concatenate([matrix.row[stays], rows[listed]]),
            np.concatenate([matrix.col[stays], columns[listed]]),
        ),
    )
    whole = sparse.coo_array(entries, shape=(len(store), store.labels)).tocsr()
    return store.holding(LabelStore.from_sparse(whole, store.absent, store.given_names, store.given_ids).entries)
