"""Items in the rows of a table, a file or a DataFrame: only the columns that the model reads, a block at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raretag.core.errors import UserError
from raretag.core.registry import nearest
from raretag.data.files import inside
from raretag.data.table.cells import CellError, is_list, is_text, narrowed, numbers, quoted, rows_of_numbers, texts
from raretag.data.table.formats import Head, Source, target
from raretag.data.table.roles import IDS, IMAGE_ENDINGS, TEXTS
from raretag.serve.items import Block, Maker


class Frame:
    """A DataFrame, or whatever else speaks Arrow, as a source of rows."""

    path = Path("the table")

    def __init__(self, frame: Any) -> None:
        try:
            self.arrow = pa.table(frame)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise UserError(
                f"a {type(frame).__name__} cannot be read as a table: {str(error).splitlines()[0]}"
            ) from None
        self.columns = tuple(map(str, self.arrow.column_names))

    def head(self) -> Head:
        usable = [field.name for field in self.arrow.schema if target(field.type) is not None]
        first = next(self.batches(usable), None)
        return Head({} if first is None else {name: first.column(name) for name in usable})

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        some = self.arrow.select(list(columns))
        for name in columns:
            if target(some.schema.field(name).type) is None:
                raise UserError(
                    f"the column '{name}' is of type {some.schema.field(name).type}; expected texts or numbers"
                )
        kinds = pa.schema([(field.name, target(field.type)) for field in some.schema])
        yield from some.cast(kinds).to_batches(max_chunksize=10_000)

    def place(self, row: int) -> str:
        return f"row {row + 1}"


@dataclass(frozen=True)
class Chosen:
    """Which columns the model reads, and which one names the items."""

    inputs: list[str]
    id: str | None


def choose(source: Source, make: Maker, known: dict[str, Any], told: Sequence[str] | None) -> Chosen:
    """Columns that the user names, else those of training, else the obvious ones."""
    name = source.path.name
    if make.kind == "tensors":
        raise UserError(
            f"the model reads tensors of shape {list(make.shape)}, which '{name}' cannot hold; "
            "expected a file of them (.npy or .safetensors)"
        )
    role = {"images": "images", "features": "features"}.get(make.kind, "text")
    wanted = list(told) if told else known.get(role) or []
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    id_ = known.get("id")
    id_ = (
        id_
        if id_ in source.columns
        else next((c for c in source.columns if c.lower() in IDS and c not in wanted), None)
    )
    for column in wanted:
        if column not in source.columns:
            why = "which was named" if told else "which the model reads, as in training"
            raise UserError(f"{name} has no column '{column}', {why}; {nearest(column, source.columns)}")
    return Chosen(wanted or _obvious(source, make, role, id_), id_)


def _obvious(source: Source, make: Maker, role: str, id_: str | None) -> list[str]:
    head = source.head().columns
    if role == "features":
        width = int(np.prod(make.description["shape"]))
        found = [column for column in head if column != id_ and _numeric(head[column])]
        lists = [column for column in found if is_list(head[column])]
        if len(lists) == 1:
            return lists
        if len(found) == width:
            return found
        raise UserError(
            f"{source.path.name} has {len(found)} columns of numbers and the model reads {width}, whose names are not "
            "known; name them in order with --column, or columns=[...]"
        )
    words = [column for column in head if is_text(head[column]) and column != id_]
    if role == "images":
        words = [c for c in words if all(str(v).lower().endswith(IMAGE_ENDINGS) for v in head[c].to_pylist())]
    else:
        words = [c for likely in TEXTS for c in words if c.lower() == likely][:1] or words
    if len(words) != 1:
        candidates = quoted(words) if words else "none"
        raise UserError(
            f"{source.path.name}: which column holds the {role}? candidates: {candidates}; "
            "name it with --column, or columns=[...]"
        )
    return words


def _numeric(column: pa.Array) -> bool:
    if is_list(column):
        return not pa.types.is_string(column.type.value_type)
    try:
        return not np.isnan(numbers(column)).all()
    except CellError:
        return False


class Rows:
    def __init__(self, source: Source, make: Maker, chosen: Chosen, folder: Path | None, allow_outside: bool) -> None:
        self.source, self.make, self.chosen = source, make, chosen
        self.folder, self.allow_outside = folder or source.path.parent, allow_outside
        self.total: int | None = None
        if isinstance(source, Frame):
            self.total = source.arrow.num_rows

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        columns = list(dict.fromkeys([*self.chosen.inputs, *([self.chosen.id] if self.chosen.id else [])]))
        done = 0  # rows of the file before this batch
        for batch in self.source.batches(columns):
            first = min(max(skip - done, 0), batch.num_rows)
            for start in range(first, batch.num_rows, rows):
                some = batch.slice(start, rows)
                yield some.num_rows, self._block(some, done + start)
            done += batch.num_rows

    def _block(self, batch: pa.RecordBatch, before: int) -> Block:
        named = [str(before + row + 1) for row in range(batch.num_rows)]
        ids = texts(batch.column(self.chosen.id)).to_pylist() if self.chosen.id else named
        if self.make.kind == "features":
            return self.make(self._numbers(batch, before), ids)
        words = texts(batch.column(self.chosen.inputs[0])).to_pylist()
        if self.make.kind == "images":
            ids = ids if self.chosen.id else words

            def place(row: int) -> str:
                return self.source.place(before + row)

            words = inside(self.folder, words, place, allow_outside=self.allow_outside)
        return self.make(words, ids)

    def _numbers(self, batch: pa.RecordBatch, before: int) -> Any:
        arrays = []
        for name in self.chosen.inputs:
            column = batch.column(name)
            try:
                arrays.append(rows_of_numbers(column) if is_list(column) else numbers(column)[:, None])
            except CellError as error:
                where = self.source.place(before + error.row)
                raise UserError(
                    f"{where}: {str(error.value)[:60]!r} in the column {name!r}; expected a number"
                ) from None
        return self.make.check(narrowed(np.concatenate(arrays, axis=1)))

    def fingerprint(self) -> str:
        if isinstance(self.source, Frame):
            return f"{self.source.arrow.num_rows} {self.chosen}"
        state = self.source.path.stat()
        mark = f"{self.source.path.resolve()} {state.st_size} {state.st_mtime_ns} {self.chosen}"
        return hashlib.sha256(mark.encode()).hexdigest()
