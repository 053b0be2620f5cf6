"""A table written anew with other labels in it: of each row the label cells change, and everything else stays."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.data.files import lines_with_ends
from raretag.data.table.cells import LISTED, WHOLE, Cells, written
from raretag.data.table.delimited import Delimited
from raretag.data.table.formats import Source
from raretag.data.table.jsonl import JsonLines
from raretag.data.table.roles import Roles

NEGATIVES = "negatives"  # the column that is added where a "no" has no place to stand
States = Mapping[str, Mapping[str, str]]  # by item, then by label


@dataclass(frozen=True)
class Writer:
    """The label cells of one row, changed; everything else in the row stays as it was."""

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
        """A list whose absent labels are negative cannot hold an unknown label."""
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
            numbers = before and not isinstance(before[0], str)
            return [int(label) for label in labels] if numbers else labels
        if cells.delimiter == LISTED:
            return json.dumps(labels, ensure_ascii=False)
        if cells.delimiter == WHOLE and len(labels) > 1:
            raise UserError(
                f"the column '{column}' holds one label per cell, so {' and '.join(labels[:2])} do not fit into one; "
                "set data.delimiter=';', or write a corrections file with --as corrections"
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


def rewrite(source: Source, writer: Writer, states: States, out: Path) -> None:
    """`out` has the format of the source, and every cell that is not to change; complete or not at all."""
    if out.suffix.lower() != source.path.suffix.lower():
        raise UserError(f"'{out.name}' must end in '{source.path.suffix}', like the table that it is made from")
    with replacing(out) as new:
        if isinstance(source, Delimited):
            _delimited(source, writer, states, new)
        elif isinstance(source, JsonLines):
            _json_lines(source, writer, states, new)
        else:
            _parquet(source, writer, states, new)


def _item(row: Mapping[str, Any], number: int, writer: Writer) -> str:
    """The id of the row's item, or its number from 1."""
    name = writer.roles.id
    if name is None:
        return str(number)
    value = row.get(name)
    return value if isinstance(value, str) else written(value)


def _delimited(source: Delimited, writer: Writer, states: States, new: Path) -> None:
    if writer.added and not source.header:
        raise UserError(
            f"{source.path.name} has no header line, so a column of negatives cannot be added; "
            "write a corrections file with --as corrections"
        )
    columns = [*source.columns, *([writer.added] if writer.added else [])]
    with new.open("w", encoding="utf-8", newline="") as file:
        put = _plain(file, source.separator, _line_end(source.path)) if not source.quotes else csv.writer(
            file, delimiter=source.separator, lineterminator=_line_end(source.path)
        ).writerow  # fmt: skip
        rows = (row for _, row in source.rows())
        if source.header:
            first = next(rows)
            put([*first, *([writer.added] if writer.added else [])])
        for number, cells in enumerate(rows, start=1):
            row = dict(zip(columns, [*cells, ""], strict=False))
            wanted = states.get(_item(row, number, writer))
            if wanted:
                row |= writer.changed(row, wanted)
            put([row[name] for name in columns])


def _plain(file: Any, separator: str, end: str) -> Any:
    def put(cells: Sequence[str]) -> None:
        file.write(separator.join(cells) + end)

    return put


def _line_end(path: Path) -> str:
    with path.open("rb") as file:
        return "\r\n" if file.readline().endswith(b"\r\n") else "\n"


def _json_lines(source: JsonLines, writer: Writer, states: States, new: Path) -> None:
    with new.open("w", encoding="utf-8") as file:
        number = 0
        for line in lines_with_ends(source.path):
            if line.strip():
                number += 1
                row = json.loads(line)
                wanted = states.get(_item(row, number, writer))
                change = writer.changed(row, wanted) if wanted else {}
                if change:
                    line = json.dumps({**row, **change}, ensure_ascii=False) + "\n"
            file.write(line if line.endswith("\n") else line + "\n")


def _parquet(source: Source, writer: Writer, states: States, new: Path) -> None:
    table = pyarrow.parquet.read_table(source.path)
    roles = writer.roles
    touched = [name for name in (roles.labels, roles.negatives, *roles.classes) if name]
    needed = [*touched, *([roles.id] if roles.id else [])]
    values = {name: table.column(name).to_pylist() for name in needed}
    if writer.added:
        lists = pa.types.is_list(table.schema.field(roles.labels).type)
        values[writer.added] = [[] if lists else "" for _ in range(table.num_rows)]
    for number, row in enumerate(_rows(values, table.num_rows), start=1):
        wanted = states.get(_item(row, number, writer))
        for name, value in (writer.changed(row, wanted) if wanted else {}).items():
            values[name][number - 1] = value
    for name in touched:
        kind = table.schema.field(name).type
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(_alike(values[name], kind), kind))
    if writer.added:
        table = table.append_column(writer.added, pa.array(values[writer.added], table.schema.field(roles.labels).type))
    pyarrow.parquet.write_table(table, new)


def _rows(values: Mapping[str, list[Any]], count: int) -> Iterator[dict[str, Any]]:
    return ({name: column[row] for name, column in values.items()} for row in range(count))


def _alike(values: Iterable[Any], kind: pa.DataType) -> list[Any]:
    """Numbers as texts in a column of texts, and -1 as nothing where only true and false fit."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [None if value is None else str(value) for value in values]
    if pa.types.is_boolean(kind):
        return [None if value is None or value == -1 else bool(value) for value in values]
    return list(values)
