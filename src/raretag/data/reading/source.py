"""A file of rows, whatever its format: named columns, a first look, and all rows in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from raretag.core.errors import UserError

HEAD = 10_000  # rows that guesses are made from
LONGEST_LINE = 16_000_000  # bytes; one item that is longer is a broken file, and would fill the memory
ENDINGS = (".csv", ".tsv", ".tab", ".parquet", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Head:
    """The first rows, column by column, and what is wrong with the columns that cannot be used."""

    columns: dict[str, pa.Array]
    unusable: dict[str, str] = field(default_factory=dict)


class Source(Protocol):
    path: Path
    columns: tuple[str, ...]

    def head(self) -> Head: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows of some columns, in the order of the file."""
        ...

    def place(self, row: int) -> str:
        """Where a row stands, for a person: 'tags.csv, line 7'. Rows count from 0."""
        ...


def open_source(
    path: Path, *, columns: Sequence[str] | None = None, separator: str | None = None, quotes: bool | None = None
) -> Source:
    """A file by its ending; `columns` names those of a file without a header line."""
    from raretag.data.reading.delimited import Delimited
    from raretag.data.reading.jsonl import JsonLines
    from raretag.data.reading.parquet import Parquet

    if not path.exists():
        raise UserError(f"the data file '{path}' does not exist")
    if not path.is_file():
        raise UserError(f"'{path}' is a folder; expected a file that ends in {', '.join(ENDINGS)}")
    if path.stat().st_size == 0:
        raise UserError(f"the data file '{path}' is empty; was it written completely?")
    ending = path.suffix.lower()
    try:
        if ending in (".csv", ".tsv", ".tab"):
            return Delimited(path, columns, separator, quotes)
        if columns is not None or separator is not None or quotes is not None:
            raise UserError(f"columns, separator and quotes are for CSV and TSV; '{path.name}' carries its own names")
        if ending == ".parquet":
            return Parquet(path)
        if ending in (".jsonl", ".ndjson"):
            return JsonLines(path)
    except OSError as error:
        raise UserError(f"the data file '{path}' cannot be read: {error.strerror or error}") from None
    raise UserError(f"'{path.name}' ends in '{ending}'; raretag reads {', '.join(ENDINGS)}")


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file with their ends; refuses bytes that are not UTF-8 and lines without end."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise UserError(f"{path.name}, line {number}: longer than {LONGEST_LINE // 10**6} MB; is it a table?")
            try:
                line.encode()
            except UnicodeEncodeError as error:
                byte = ord(line[error.start]) - 0xDC00  # how `surrogateescape` keeps it
                raise UserError(
                    f"{path.name}, line {number}, character {error.start + 1}: byte 0x{byte:02x} is not UTF-8; "
                    "was it saved in another encoding? `iconv -t utf-8` converts it"
                ) from None
            yield line
