"""A file of rows, whatever its format: named columns, the first rows, and all rows in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from raretag.core.errors import UserError
from raretag.data import limits

HEAD = 10_000  # rows that guesses are made from
ROW_BYTES = 64  # what an item takes at least, with its id and its list of labels
ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Head:
    """The first rows, column by column, and what is wrong with the columns that cannot be used."""

    columns: dict[str, pa.Array]
    unusable: dict[str, str] = field(default_factory=dict)


class Source(Protocol):
    """An open file of rows."""

    path: Path
    columns: tuple[str, ...]

    def head(self) -> Head: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of some columns, in the order of the file."""
        ...

    def place(self, row: int) -> str:
        """The place of a row, for a person: 'tags.csv, line 7'. Rows count from 0."""
        ...


def open_source(
    path: Path, *, columns: Sequence[str] | None = None, separator: str | None = None, quotes: bool | None = None
) -> Source:
    """A file by its ending; `columns` names those of a file without a header line."""
    if not path.exists():
        raise UserError(f"the data file '{path}' does not exist")
    if not path.is_file():
        raise UserError(f"'{path}' is a folder; expected a file that ends in {', '.join(ENDINGS)}")
    if path.stat().st_size == 0:
        raise UserError(f"the data file '{path}' is empty; was it written completely?")
    ending = path.suffix.lower()
    try:
        if ending in (".csv", ".tsv", ".tab"):
            from raretag.data.table.delimited import Delimited  # it needs Head, from above

            return Delimited(path, columns, separator, quotes)
        if columns is not None or separator is not None or quotes is not None:
            raise UserError(f"columns, separator and quotes are for CSV and TSV; '{path.name}' carries its own names")
        if ending == ".parquet":
            return Parquet(path)
        if ending in (".jsonl", ".ndjson"):
            from raretag.data.table.jsonl import JsonLines

            return JsonLines(path)
    except OSError as error:
        raise UserError(f"the data file '{path}' cannot be read: {error.strerror or error}") from None
    raise UserError(f"'{path.name}' ends in '{ending}'; raretag reads {', '.join(ENDINGS)}")


# Of which names that are not UTF-8 are one: a UnicodeDecodeError is a ValueError, as is a UserError, which stays one.
_DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, KeyError, IndexError)


class Parquet:
    """Parquet, read in batches of rows and only the columns that are wanted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                about = file.metadata
                self.schema, rows = file.schema_arrow, about.num_rows
                leaves = [file.schema.column(leaf) for leaf in range(about.num_columns)]
                self.packed = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
                _refuse_large(path, about)
        except _DAMAGED as error:
            raise UserError(f"'{path}' is not a Parquet file: {' '.join(str(error).split())}") from None
        self.columns = tuple(self.schema.names)
        if len(set(self.columns)) < len(self.columns):
            raise UserError(f"{path.name} has two columns of the same name; expected each name once")
        if rows == 0:
            raise UserError(f"the data file '{path}' has columns but no rows")

    def head(self) -> Head:
        usable = [field.name for field in self.schema if target(field.type) is not None]
        first = next(self.batches(usable), None)
        columns = {} if first is None else {name: first.column(name).slice(0, HEAD) for name in usable}
        return Head(columns, {name: self._refusal(name) for name in self.columns if name not in columns})

    def _refusal(self, name: str) -> str:
        kind = self.schema.field(name).type
        return f"{self.path.name}: {name!r} is of type {kind}; expected texts, numbers, or lists of one of them"

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        targets = [target(self.schema.field(name).type) for name in columns]
        if None in targets:
            raise UserError(self._refusal(columns[targets.index(None)]))
        try:
            # Texts that repeat stay packed until their size is known.
            with pyarrow.parquet.ParquetFile(self.path, read_dictionary=self.packed) as file:
                for batch in file.iter_batches(columns=list(columns), batch_size=HEAD):
                    arrays = [
                        self._unpacked(batch.column(name)).cast(kind)
                        for name, kind in zip(columns, targets, strict=True)
                    ]
                    for array in arrays:
                        array.validate(full=True)  # places within the data, and texts in UTF-8
                    if batch.num_rows:
                        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        except _DAMAGED as error:
            raise UserError(f"{self.path.name} cannot be read: {' '.join(str(error).split())}") from None

    def _unpacked(self, column: pa.Array) -> pa.Array:
        """The same with each text written out, for which there must be room."""
        if isinstance(column, pa.ListArray) and pa.types.is_dictionary(column.type.value_type):
            inner = self._unpacked(column.flatten())
            ends = column.offsets.to_numpy() - column.offsets[0].as_py()
            return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, mask=column.is_null())
        if not isinstance(column, pa.DictionaryArray) or not _is_text(column.type.value_type):
            return column
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        limits.refuse_large(self.path, pc.sum(lengths).as_py() or 0, f"the texts of {len(column):,} rows")
        return column.dictionary_decode()

    def place(self, row: int) -> str:
        return f"{self.path.name}, row {row + 1}"


def _refuse_large(path: Path, about: pyarrow.parquet.FileMetaData) -> None:
    """A few bytes can stand for very many equal rows."""
    limits.refuse_wide(path, about.num_columns)
    rows = about.num_rows
    limits.refuse_large(path, max(4 * rows * about.num_columns, ROW_BYTES * rows), f"{rows:,} rows")
    # No look at `about.row_group(...).column(...)`: pyarrow ends the process there if the file is damaged.


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def target(kind: pa.DataType) -> pa.DataType | None:
    """The one of our types that holds a column, if one does."""
    if pa.types.is_dictionary(kind):
        return target(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return pa.int64()  # exact, as ids must be
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = target(kind.value_type)
        return None if inner is None or pa.types.is_list(inner) else pa.list_(inner)
    return None
