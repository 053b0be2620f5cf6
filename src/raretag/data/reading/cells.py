"""The labels of one item in one cell: 'cat;dog', ['cat', 'dog'], or a real list."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from raretag.data.reading.columns import CellError, is_list, is_text, texts, written

DELIMITERS = (";", "|", ",")
LISTED = "[]"  # the cell is a list as Python or JSON write it
WHOLE = ""  # the cell is one label
_LONGEST_LIST = 1_000_000  # characters; Python's own reader takes a hundred times that in memory


def guess_delimiter(cells: Sequence[str]) -> str:
    """What stands between labels in these cells."""
    cells = [cell.strip() for cell in cells if cell.strip()]
    if cells and all(cell.startswith("[") and cell.endswith("]") for cell in cells):
        return LISTED
    often = {mark: sum(mark in cell for cell in cells) for mark in DELIMITERS}
    mark = max(DELIMITERS, key=lambda mark: often[mark])
    if often[mark]:
        return mark
    whole, words = set(cells), {word for cell in cells for word in cell.split()}
    return " " if len(words) < len(whole) else WHOLE  # 'cat dog' repeats its words, 'traffic light' does not


@dataclass(frozen=True)
class Cells:
    """Reads a column of labels."""

    delimiter: str

    def lists(self, column: pa.Array) -> list[list[str] | None]:
        """The labels of each row; None where nobody said anything, which is not an empty list."""
        if is_list(column):
            return [None if row is None else _clean(row, number) for number, row in enumerate(column.to_pylist())]
        if not is_text(column):
            return [[label] if label else None for label in texts(column).to_pylist()]
        return [None if cell is None else self._split(cell.strip(), row) for row, cell in enumerate(column.to_pylist())]

    def _split(self, cell: str, row: int) -> list[str]:
        if not cell:
            return []
        if self.delimiter == WHOLE:
            return [cell]
        if self.delimiter == LISTED:
            return _clean(_listed(cell, row), row)
        parts = cell.split() if self.delimiter == " " else [part.strip() for part in cell.split(self.delimiter)]
        return list(dict.fromkeys(part for part in parts if part))

    def said(self) -> str:
        if self.delimiter in (WHOLE, LISTED):
            return "one label a cell" if self.delimiter == WHOLE else "lists in brackets"
        return f"separated by {'spaces' if self.delimiter == ' ' else repr(self.delimiter)}"


def _clean(row: Sequence[object], number: int) -> list[str]:
    kinds = {isinstance(label, str) for label in row}
    if len(kinds) > 1 or not all(isinstance(label, (str, int, float)) for label in row):
        raise CellError(number, row)
    return list(dict.fromkeys(filter(None, (written(label).strip() for label in row))))


def _listed(cell: str, row: int) -> list[object]:
    for read in (json.loads, ast.literal_eval):  # literal_eval builds values and runs nothing
        if len(cell) > _LONGEST_LIST:
            break
        try:
            value = read(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, list):
            return value
    raise CellError(row, cell)
