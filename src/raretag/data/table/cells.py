"""What cells hold: texts, numbers, the state of a label, or the labels of one item ('cat;dog', ['cat', 'dog']).

A cell that does not fit its column is an error with its row.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raretag.core.errors import some

POSITIVE, NEGATIVE, UNKNOWN, BLANK, WRONG = 1, 0, -1, -2, -3
BLANKS = frozenset(("", "nan", "na", "n/a", "null", "none", "<na>"))
_STATES = {
    **dict.fromkeys(("1", "true", "yes"), POSITIVE),
    **dict.fromkeys(("0", "false", "no"), NEGATIVE),
    **dict.fromkeys(("-1", "-100", "?", "unknown"), UNKNOWN),
    **dict.fromkeys(BLANKS, BLANK),
}


DELIMITERS = (";", "|", ",")
LISTED = "[]"  # the cell is a list as Python or JSON write it
WHOLE = ""  # the cell is one label
_LONGEST_LIST = 1_000_000  # characters; Python's own reader takes a hundred times that in memory


class CellError(ValueError):
    """A cell that does not fit its column."""

    def __init__(self, row: int, value: object) -> None:
        super().__init__(f"row {row}: {value!r}")
        self.row, self.value = row, value


def is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type))


def is_list(column: pa.Array) -> bool:
    return bool(pa.types.is_list(column.type))


def is_list_of_numbers(column: pa.Array) -> bool:
    return is_list(column) and not pa.types.is_string(column.type.value_type)


def is_numeric(column: pa.Array) -> bool:
    """Whether every cell is a number or blank, and some are numbers."""
    try:
        return not np.isnan(numbers(column)).all()
    except CellError:
        return False


def texts(column: pa.Array) -> pa.Array:
    """Every cell as a text, a blank one as ''. Whole numbers are written without a point."""
    if is_text(column):
        return pc.fill_null(column, "")
    return pa.array(["" if value is None else written(value) for value in column.to_pylist()], pa.string())


def written(value: object) -> str:
    """A value as a text."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if isinstance(value, float) and math.isnan(value) else str(value)


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """Every cell as a number, a blank one as NaN."""
    if is_list(column):
        raise CellError(0, column[0].as_py())
    if not is_text(column):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    column = pc.utf8_trim_whitespace(pc.fill_null(column, ""))
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return np.array([_number(row, value) for row, value in enumerate(column.to_pylist())], np.float64)


def _number(row: int, value: str | None) -> float:
    if value is None or value.lower() in BLANKS:
        return math.nan
    try:
        return float(value)
    except ValueError:
        raise CellError(row, value) from None


def states(column: pa.Array) -> NDArray[np.int8]:
    """Every cell of a column that stands for one label: POSITIVE, NEGATIVE, UNKNOWN, BLANK or WRONG.

    After the first wrong cell, others that differ from all before it are called wrong too.
    """
    if is_list(column):
        return np.full(len(column), WRONG, np.int8)
    coded = column.dictionary_encode()  # few different cells, many rows
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    known = np.full(len(coded.dictionary) + 1, WRONG, np.int8)
    known[-1] = BLANK
    for number, value in enumerate(coded.dictionary):  # in the order of the rows, so the first wrong cell is enough
        known[number] = _state(value.as_py())
        if known[number] == WRONG:
            break
    return np.asarray(known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)])


def _state(value: object) -> int:
    if isinstance(value, str):
        value = value.strip().lower()
        if value in _STATES:
            return _STATES[value]
        try:
            value = float(value)
        except ValueError:
            return WRONG
    if isinstance(value, float) and math.isnan(value):
        return BLANK
    return _STATES.get(written(float(value)), WRONG) if isinstance(value, (bool, int, float)) else WRONG


def rows_of_numbers(column: pa.Array) -> NDArray[np.float32]:
    """A column of lists of the same length as an array [N, D]; a blank cell is a row of NaN."""
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    known = lengths[~np.isnan(lengths)] if lengths.dtype.kind == "f" else lengths
    width = int(known[0]) if len(known) else 0
    if (known != width).any():
        row = int(np.flatnonzero((lengths != width) & ~np.isnan(lengths))[0])
        raise CellError(row, f"a list of {int(lengths[row])} numbers after lists of {width}")
    result = np.full((len(column), width), np.nan)
    flat = column.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    result[~np.isnan(lengths)] = flat.reshape(-1, width)
    return narrowed(result)


def narrowed(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """What is too large becomes infinite, and is then an item that cannot be used."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def quoted(names: Sequence[str], most: int = 8) -> str:
    """Some names for a sentence."""
    return some([repr(name) for name in names], most)


def guess_delimiter(cells: Sequence[str]) -> str:
    """The mark between labels in these cells."""
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
        """The labels of each row; None where the cell is null, which is not an empty list."""
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

    def described(self) -> str:
        """For a remark."""
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
