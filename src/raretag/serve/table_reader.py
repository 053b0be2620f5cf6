"""Items in the rows of a table, a file or a DataFrame: only the columns that the model reads, a block at a time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from raretag.core.errors import UserError
from raretag.core.registry import nearest
from raretag.data.files import inside, shown
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.data.inputs.mixed import columns_of
from raretag.data.table.cells import CellError, is_list, is_text, narrowed, numbers, rows_of_numbers, texts
from raretag.data.table.formats import Head, Source, target
from raretag.data.table.roles import IDS, IMAGE_ENDINGS, TEXTS

if TYPE_CHECKING:  # readers.py opens tables with this file
    from raretag.serve.readers import Block, Converter

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # what pyarrow makes of the row numbers of a pandas frame


class FrameSource:
    """A DataFrame, or any other object that pyarrow can read, as a source of rows."""

    path = Path("the table")

    def __init__(self, frame: Any) -> None:
        try:
            found = pa.table(frame)
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise UserError(
                f"a {type(frame).__name__} cannot be read as a table: {str(error).splitlines()[0]}"
            ) from None
        self.arrow = found.select([name for name in found.column_names if not _UNNAMED_INDEX.fullmatch(name)])
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
class Columns:
    """Which columns the model reads, and which one names the items."""

    inputs: list[str]
    id: str | None


def choose_columns(
    source: Source, converter: Converter, trained: Mapping[str, Any], given: Sequence[str] | None
) -> Columns:
    """The columns that the user gives, else those that the model was trained on, else the obvious ones."""
    name = source.path.name
    if converter.kind == "tensors" and len(converter.shape) != 1:
        raise UserError(
            f"the model reads tensors of shape {list(converter.shape)}, which '{name}' cannot hold; "
            "expected a file of them (.npy or .safetensors)"
        )
    role = {"images": "images", "features": "features", "tensors": "features"}.get(converter.kind, "text")
    read = columns_of(converter.description) if converter.kind == MIXED else trained.get(role) or []
    if given and converter.kind == MIXED and len(given) != len(read):
        raise UserError(
            f"{len(given)} columns were named; the model reads {len(read)}, in this order: {', '.join(read)}"
        )
    wanted = list(given) if given else read
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    id_ = trained.get("id")
    if id_ not in source.columns:
        id_ = next((column for column in source.columns if column.lower() in IDS and column not in wanted), None)
    for column in wanted:
        if column not in source.columns:
            why = "which was named" if given else "which the model reads, as in training"
            raise UserError(f"{name} has no column '{column}', {why}; {nearest(column, source.columns)}")
    if not wanted:
        wanted = _obvious_features(source, converter, id_) if role == "features" else _obvious(source, role, id_)
    return Columns(wanted, id_)


def _obvious_features(source: Source, converter: Converter, id_: str | None) -> list[str]:
    head = source.head().columns
    width = int(np.prod(converter.description["shape"] if converter.kind == "features" else converter.shape))
    found = [column for column in head if column != id_ and _is_numeric(head[column])]
    lists = [column for column in found if is_list(head[column])]
    if len(lists) == 1:
        return lists
    if len(found) == width:
        return found
    raise UserError(
        f"{source.path.name} has {len(found)} columns of numbers and the model reads {width}, whose names are not "
        "known; name them in order with --column, or columns=[...]"
    )


def _obvious(source: Source, role: str, id_: str | None) -> list[str]:
    head = source.head().columns
    found = [column for column in head if is_text(head[column]) and column != id_]
    if role == "images":
        found = [c for c in found if all(str(v).lower().endswith(IMAGE_ENDINGS) for v in head[c].to_pylist())]
    else:
        found = [c for likely in TEXTS for c in found if c.lower() == likely][:1] or found
    if len(found) != 1:
        candidates = shown(found) if found else "none"
        raise UserError(
            f"{source.path.name}: which column holds the {role}? candidates: {candidates}; "
            "name it with --column, or columns=[...]"
        )
    return found


def _is_numeric(column: pa.Array) -> bool:
    if is_list(column):
        return not pa.types.is_string(column.type.value_type)
    try:
        return not np.isnan(numbers(column)).all()
    except CellError:
        return False


class TableReader:
    """A `Reader` of the rows of a table."""

    def __init__(
        self, source: Source, converter: Converter, columns: Columns, folder: Path | None, allow_outside: bool
    ) -> None:
        self.source, self.converter, self.columns = source, converter, columns
        self.folder, self.allow_outside = folder or source.path.parent, allow_outside
        self.total: int | None = source.arrow.num_rows if isinstance(source, FrameSource) else None
        self.remarks = converter.remarks

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        columns = list(dict.fromkeys([*self.columns.inputs, *([self.columns.id] if self.columns.id else [])]))
        done = 0  # rows of the file before this batch
        for batch in self.source.batches(columns):
            first = min(max(skip - done, 0), batch.num_rows)
            for start in range(first, batch.num_rows, rows):
                some = batch.slice(start, rows)
                yield some.num_rows, self._block(some, done + start)
            done += batch.num_rows

    def _block(self, batch: pa.RecordBatch, before: int) -> Block:
        row_numbers = [str(before + row + 1) for row in range(batch.num_rows)]
        ids = texts(batch.column(self.columns.id)).to_pylist() if self.columns.id else row_numbers
        if self.converter.kind in ("features", "tensors"):
            return self.converter.convert(self._numbers(batch, before), ids)
        if self.converter.kind == MIXED:
            return self.converter.convert(self._rows(batch, before), ids)
        words = texts(batch.column(self.columns.inputs[0])).to_pylist()
        if self.converter.kind == "images":
            ids = ids if self.columns.id else words
            words = self._inside(words, before)
        return self.converter.convert(words, ids)

    def _inside(self, words: list[str], before: int) -> list[str]:
        def place(row: int) -> str:
            return self.source.place(before + row)

        return inside(self.folder, words, place, allow_outside=self.allow_outside)

    def _rows(self, batch: pa.RecordBatch, before: int) -> list[dict[str, Any]]:
        """The cells of each row, by the names that the columns had in training."""
        description = self.converter.description
        names = dict(zip(columns_of(description), self.columns.inputs, strict=True))
        cells = {name: batch.column(column).to_pylist() for name, column in names.items()}
        if "image" in description:
            image = description["image"]["column"]
            cells[image] = self._inside(texts(batch.column(names[image])).to_pylist(), before)
        return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]

    def _numbers(self, batch: pa.RecordBatch, before: int) -> Any:
        arrays = []
        for name in self.columns.inputs:
            column = batch.column(name)
            try:
                arrays.append(rows_of_numbers(column) if is_list(column) else numbers(column)[:, None])
            except CellError as error:
                where = self.source.place(before + error.row)
                raise UserError(
                    f"{where}: {str(error.value)[:60]!r} in the column {name!r}; expected a number"
                ) from None
        return self.converter.checked(narrowed(np.concatenate(arrays, axis=1)))

    def fingerprint(self) -> str:
        if isinstance(self.source, FrameSource):
            return f"{self.source.arrow.num_rows} {self.columns}"
        state = self.source.path.stat()
        mark = f"{self.source.path.resolve()} {state.st_size} {state.st_mtime_ns} {self.columns}"
        return hashlib.sha256(mark.encode()).hexdigest()
