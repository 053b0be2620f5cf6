"""A table with other labels, written beside the old one and renamed when complete."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from raretag.core.errors import UserError
from raretag.data.reading.columns import written
from raretag.data.reading.delimited import Delimited
from raretag.data.reading.jsonl import JsonLines
from raretag.data.reading.source import Source, lines
from raretag.data.writing.cells import Writer

States = Mapping[str, Mapping[str, str]]  # by item, then by label


def rewrite(source: Source, writer: Writer, states: States, out: Path) -> None:
    """`out` has the format of the source, and every cell that was not told to change."""
    if out.suffix.lower() != source.path.suffix.lower():
        raise UserError(f"'{out.name}' must end in '{source.path.suffix}', like the table that it is made from")
    new = out.with_name(out.name + ".new")
    try:
        if isinstance(source, Delimited):
            _delimited(source, writer, states, new)
        elif isinstance(source, JsonLines):
            _json_lines(source, writer, states, new)
        else:
            _parquet(source, writer, states, new)
        os.replace(new, out)
    except OSError as error:
        raise UserError(f"'{out}' cannot be written: {error.strerror}") from None
    finally:
        new.unlink(missing_ok=True)


def _item(row: Mapping[str, Any], number: int, writer: Writer) -> str:
    """What the row's item is called: its id, or its number from 1."""
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
        rows = (row for _, row in source._slowly())
        if source.header:
            first = next(rows)
            put([*first, *([writer.added] if writer.added else [])])
        for number, cells in enumerate(rows, start=1):
            row = dict(zip(columns, [*cells, ""], strict=False))
            told = states.get(_item(row, number, writer))
            if told:
                row |= writer.changed(row, told)
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
        for line in lines(source.path):
            if line.strip():
                number += 1
                row = json.loads(line)
                told = states.get(_item(row, number, writer))
                change = writer.changed(row, told) if told else {}
                if change:
                    line = json.dumps({**row, **change}, ensure_ascii=False) + "\n"
            file.write(line if line.endswith("\n") else line + "\n")


def _parquet(source: Source, writer: Writer, states: States, new: Path) -> None:
    table = pyarrow.parquet.read_table(source.path)
    roles = writer.roles
    touched = [name for name in (roles.labels, roles.negatives, *roles.classes) if name]
    wanted = [*touched, *([roles.id] if roles.id else [])]
    values = {name: table.column(name).to_pylist() for name in wanted}
    if writer.added:
        lists = pa.types.is_list(table.schema.field(roles.labels).type)
        values[writer.added] = [[] if lists else "" for _ in range(table.num_rows)]
    for number, row in enumerate(_rows(values, table.num_rows), start=1):
        told = states.get(_item(row, number, writer))
        for name, value in (writer.changed(row, told) if told else {}).items():
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
