"""The label cells of one row, changed as told; everything else in the row stays as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from raretag.core.errors import UserError
from raretag.data.reading.cells import LISTED, WHOLE, Cells
from raretag.data.reading.roles import Roles

NEGATIVES = "negatives"  # the column that is added where a "no" has no place to stand


@dataclass(frozen=True)
class Writer:
    roles: Roles
    absent: str  # what a label is that the file does not mention
    column_of_negatives: str | None  # after the change

    @classmethod
    def of(cls, roles: Roles, absent: str, states: Mapping[tuple[str, str], str]) -> Writer:
        """With a new column of negatives if the answers need one."""
        added = roles.labels and not roles.negatives and absent == "unknown" and "negative" in states.values()
        return cls(roles, absent, NEGATIVES if added else roles.negatives)

    @property
    def added(self) -> str | None:
        return None if self.column_of_negatives == self.roles.negatives else self.column_of_negatives

    def can_write(self, state: str) -> bool:
        """A list whose absent labels are negative cannot say that nobody knows."""
        return state != "unknown" or self.roles.labels is None or self.absent == "unknown"

    def changed(self, row: Mapping[str, Any], states: Mapping[str, str]) -> dict[str, Any]:
        """New values of some columns, from the states of some labels of this row."""
        if self.roles.labels is None:
            return {label: self._state(row.get(label), state) for label, state in states.items()}
        columns = {"positive": self.roles.labels, "negative": self.column_of_negatives}
        new = {}
        for kind, column in columns.items():
            if column is None:
                continue
            before = _listed(self.roles.cells, row.get(column))
            after = [label for label in before if states.get(label, kind) == kind]
            after += [label for label, state in states.items() if state == kind and label not in before]
            if after != before:
                new[column] = self._list(row.get(column), after, column)
        return new

    def _state(self, before: Any, state: str) -> Any:
        number = {"positive": 1, "negative": 0, "unknown": -1}[state]
        if isinstance(before, bool):
            return None if number < 0 else bool(number)
        return str(number) if isinstance(before, str) else number

    def _list(self, before: Any, labels: list[str], column: str) -> Any:
        cells = self.roles.cells
        if isinstance(before, list) or (before is None and column == NEGATIVES and cells.delimiter == LISTED):
            number = bool(before) and not isinstance(before[0], str)
            return [int(label) for label in labels] if number else labels
        if cells.delimiter == LISTED:
            return json.dumps(labels, ensure_ascii=False)
        if cells.delimiter == WHOLE and len(labels) > 1:
            raise UserError(
                f"the column '{column}' holds one label a cell, so {' and '.join(labels[:2])} do not fit into one; "
                "say data.delimiter=';', or write a corrections file with --as corrections"
            )
        clash = next((label for label in labels if cells.delimiter and cells.delimiter in label), None)
        if clash is not None:
            raise UserError(f"the label '{clash}' holds the delimiter {cells.delimiter!r} and cannot be listed")
        return cells.delimiter.join(labels)


def _listed(cells: Cells, value: Any) -> list[str]:
    if value is None:
        return []
    column = pa.array([value]) if not isinstance(value, list) or value else pa.array([[]], pa.list_(pa.string()))
    return cells.lists(column)[0] or []
