"""Items in an SVMlight file, read some rows at a time; labels in the file are passed over."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from raretag.core.errors import UserError
from raretag.data.sets.svmlight import row_blocks

if TYPE_CHECKING:  # readers.py opens such files with this one
    from raretag.serve.readers import Block, Converter


class SparseFileReader:
    """A `Reader` of the rows of an SVMlight file; an item is named by its place, from 1."""

    def __init__(self, path: Path, converter: Converter) -> None:
        if converter.kind not in ("features", "tensors"):
            raise UserError(f"'{path}' holds sparse rows of numbers, but the model reads {converter.reads}")
        self.path, self.converter = path, converter
        self.total: int | None = None
        self.remarks = converter.remarks

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        width, done = self.converter.shape[0], 0
        for some in row_blocks(self.path, rows):
            first = min(max(skip - done, 0), len(some.positives))
            x = some.features
            if x.shape[1] > width and x.indices.max(initial=-1) >= width:
                raise UserError(f"'{self.path}' has the feature {x.indices.max()}; the model reads {width} of them")
            x.resize(x.shape[0], width)
            if first < len(some.positives):
                ids = [str(done + row + 1) for row in range(first, len(some.positives))]
                yield len(ids), self.converter.convert(self.converter.checked(x[first:]), ids)
            done += len(some.positives)

    def fingerprint(self) -> str:
        state = self.path.stat()
        return hashlib.sha256(f"{self.path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
