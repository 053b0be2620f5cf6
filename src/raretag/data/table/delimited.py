"""CSV and TSV. pyarrow reads them fast; when it stumbles, a slow second reading finds the line for the error."""

from __future__ import annotations

import contextlib
import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from raretag.core.errors import UserError
from raretag.data import limits
from raretag.data.files import LONGEST_LINE, lines_with_ends
from raretag.data.table.formats import HEAD, Head

SEPARATORS = (",", ";", "\t", "|")
_BLOCK = LONGEST_LINE // 2  # bytes; a line may reach over one border of blocks but not over two
_END = "\x01end\x01"  # swallowed by a quote that is still open


class Delimited:
    """A CSV or TSV file; separator and quotes are guessed where they are not given."""

    def __init__(self, path: Path, columns: Sequence[str] | None, separator: str | None, quotes: bool | None) -> None:
        self.path = path
        if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n\x00'):
            raise UserError(f"separator is {separator!r}; expected one character, such as ';'")
        self._explained = False
        tabs = path.suffix.lower() != ".csv"
        self.quotes = quotes if quotes is not None else not tabs or _quoted(path)
        self.separator = separator or ("\t" if tabs else self._guess_separator())
        first = next((row for _, row in self.rows()), None)
        if first is None:
            raise UserError(f"the data file '{path}' has no rows, only blank lines")
        self.header = columns is None
        limits.refuse_wide(path, len(first))
        self.columns = tuple(columns) if columns is not None else named(path, first)
        if len(set(self.columns)) < len(self.columns):
            twice = Counter(self.columns).most_common(1)[0][0]
            raise UserError(f"{path.name}: the column {twice!r} occurs twice; expected each name once")

    def head(self) -> Head:
        first = next(self.batches(self.columns), None)
        if first is None:
            raise UserError(f"the data file '{self.path}' has a header line but no rows")
        return Head({name: first.column(name).slice(0, HEAD) for name in self.columns})

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.quotes and not self._explained and _odd_quotes(self.path):
            self._explain()  # pyarrow takes a quote that never closes for one long cell
        try:
            header = self.header
            with self._fast(columns) as reader:
                for batch in reader:
                    rows = batch.slice(1) if header else batch
                    header = header and batch.num_rows == 0
                    if rows.num_rows:
                        yield rows
        except pa.ArrowException as error:
            self._explain()
            raise UserError(f"{self.path.name} cannot be read: {' '.join(str(error).split())}") from None

    def place(self, row: int) -> str:
        wanted = row + self.header
        with contextlib.suppress(UserError):
            for number, (line, _) in enumerate(self.rows()):
                if number == wanted:
                    return f"{self.path.name}, line {line}"
        return f"{self.path.name}, row {row + 1}"

    def _fast(self, columns: Sequence[str]) -> Any:
        return pyarrow.csv.open_csv(
            self.path,
            pyarrow.csv.ReadOptions(use_threads=True, block_size=_BLOCK, column_names=list(self.columns)),
            pyarrow.csv.ParseOptions(
                delimiter=self.separator, quote_char='"' if self.quotes else False, newlines_in_values=self.quotes
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.columns, pa.string()),  # all text: kinds are ours to decide
                include_columns=list(columns),
                strings_can_be_null=False,
            ),
        )

    def rows(self, separator: str | None = None) -> Iterator[tuple[int, list[str]]]:
        """Every row that is not blank, with the line it begins in."""
        reader = csv.reader(
            lines_with_ends(self.path),
            delimiter=separator or self.separator,
            quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
        )
        begins = 1
        with _long_cells():
            try:
                for row in reader:
                    if row:
                        yield begins, row
                    begins = reader.line_num + 1
            except csv.Error as error:
                raise UserError(f"{self.path.name}, line {begins}: {error}") from None

    def _explain(self) -> None:
        """Raise the error of the first line that is wrong, if there is one."""
        self._explained = True
        begins = 1
        for begins, row in self.rows():
            if len(row) != len(self.columns):
                raise UserError(
                    f"{self.path.name}, line {begins}: {len(row)} cells, expected {len(self.columns)}; "
                    f"is a quote missing, or does a cell hold the separator {self.separator!r} without quotes?"
                )
        if self.quotes and self._ends_open():
            raise UserError(f'{self.path.name}, line {begins}: a quote (") opens a cell and never closes')

    def _ends_open(self) -> bool:
        def marked() -> Iterator[str]:
            yield from lines_with_ends(self.path)
            yield "\n"
            yield _END

        last: list[str] = []
        with _long_cells():
            for row in csv.reader(marked(), delimiter=self.separator):
                last = row
        return last != [_END]

    def _guess_separator(self) -> str:
        """The one that gives most columns in the first row; a comma before others."""
        self.separator = ","

        def width(separator: str) -> int:
            return len(next((row for _, row in self.rows(separator)), []))

        return max(SEPARATORS, key=width)


def named(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """The names of columns in a header line."""
    names = tuple(name.strip() or f"column_{number}" for number, name in enumerate(header, start=1))
    image = next((name for name in names if name.lower().endswith((".jpg", ".jpeg", ".png"))), None)
    if image is not None:
        raise UserError(
            f"{path.name}, line 1: {image!r} is an item, not the name of a column; "
            "for a file without a header line give the names, such as data.columns=[image,tags]"
        )
    return names


def _quoted(path: Path) -> bool:
    """Whether a TSV quotes its cells: if every cell that opens with a quote closes with one."""
    opened = False
    for number, line in enumerate(lines_with_ends(path)):
        for cell in line.rstrip("\r\n").split("\t"):
            if cell.startswith('"'):
                opened = True
                if len(cell) < 2 or not cell.endswith('"'):
                    return False
        if number == HEAD:
            break
    return opened


def _odd_quotes(path: Path) -> bool:
    with path.open("rb") as file:
        return sum(block.count(b'"') for block in iter(lambda: file.read(_BLOCK), b"")) % 2 == 1


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    before = csv.field_size_limit(LONGEST_LINE)  # the module has one limit for all its readers
    try:
        yield
    finally:
        csv.field_size_limit(before)
