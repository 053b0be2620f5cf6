"""JSON Lines: one object per line. Keys that a line lacks are blank there."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from raretag.core.errors import UserError
from raretag.data import limits
from raretag.data.files import cut, lines_with_ends
from raretag.data.table.formats import HEAD, Head


class JsonLines:
    """A JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._first: list[tuple[int, dict[str, Any]]] = []
        keys: dict[str, None] = {}
        for number, row in itertools.islice(self._objects(), HEAD):
            self._first.append((number, row))
            keys.update(dict.fromkeys(row))
            limits.refuse_wide(path, len(keys))
        if not self._first:
            raise UserError(f"the data file '{path}' has no rows, only blank lines")
        self.columns = tuple(keys)

    def head(self) -> Head:
        head = Head({})
        for name in self.columns:
            try:
                head.columns[name] = self._column(name, self._first)
            except UserError as error:  # noqa: PERF203 - it is an error only if this column is wanted
                head.unusable[name] = str(error)
        return head

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        objects = self._objects()
        while rows := list(itertools.islice(objects, HEAD)):
            yield pa.RecordBatch.from_arrays([self._column(name, rows) for name in columns], names=list(columns))

    def place(self, row: int) -> str:
        line, _ = next(itertools.islice(self._objects(), row, None))
        return f"{self.path.name}, line {line}"

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(lines_with_ends(self.path), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{self.path.name}, line {number}: not JSON ({error})") from None
            if not isinstance(row, dict):
                raise UserError(
                    f"{self.path.name}, line {number}: {type(row).__name__}; expected one object per line, "
                    'such as {"text": "...", "labels": ["a"]}'
                )
            yield number, row

    def _column(self, name: str, rows: list[tuple[int, dict[str, Any]]]) -> pa.Array:
        """The values of a key in one type: text, number, or list of one of the two."""
        values = [row.get(name) for _, row in rows]
        kinds = [_kind(value) for value in values]
        first: dict[str, int] = {}
        for place, kind in enumerate(kinds):
            if kind:
                first.setdefault(kind, place)
        first.pop("empty list", None) if any(kind.startswith("list of") for kind in first) else None
        if len(first) > 1 or "other" in first:
            examples = [f"{cut(json.dumps(values[place]), 40)} in line {rows[place][0]}" for place in first.values()]
            held = " and ".join(examples)
            raise UserError(
                f"{self.path.name}: {name!r} holds {held}; expected texts, numbers, or lists of one of them"
            )
        wanted = _TYPES[next(iter(first), "text")]
        try:
            return pa.array(values) if wanted is None else pa.array(values, wanted)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise UserError(
                f"{self.path.name}, lines {rows[0][0]} to {rows[-1][0]}: {name!r} holds a value that cannot be kept "
                f"({' '.join(str(error).split())})"
            ) from None


_TYPES = {
    "text": pa.string(),
    "truth": pa.bool_(),
    "number": None,  # int64 or float64, as pyarrow finds
    "list of texts": pa.list_(pa.string()),
    "list of numbers": None,
    "empty list": pa.list_(pa.string()),
}


def _kind(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, list):
        kinds = {_kind(element) for element in value}
        if kinds <= {"text"} or kinds <= {"number"}:
            return f"list of {kinds.pop()}s" if kinds else "empty list"
    return "other"
