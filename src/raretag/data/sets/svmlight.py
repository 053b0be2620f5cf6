"""Your own sparse rows with many labels: SVMlight / LIBSVM files, and those for extreme classification.

Give `train` and, if there is one, `test`. Rows look like `3,17 0:1.5 7:0.25`; a first line `items features labels`
may be there. Labels are numbers; `names` is a file that names them, one a line.

Without a test file a stratified part of the items is held out for it; `test` may also be the share that it gets.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from raretag.core.errors import UserError
from raretag.data import limits
from raretag.data.files import lines, read_names, shown, whole, wrong
from raretag.data.sets.arff import number_of
from raretag.data.sets.named import TESTED, FeatureRows, Part, part

FILES = ()
MOST_LABELS, MOST_FEATURES = 10_000_000, 2**31 - 1


class Svmlight(FeatureRows):
    name = "svmlight"

    def __init__(
        self, *, train: str, test: str | float = "", names: str = "", validation: float = 0.1, seed: int = 0
    ) -> None:
        self.paths = {"train": Path(train)} | ({"test": Path(test)} if test and isinstance(test, str) else {})
        self.tested = test if isinstance(test, (int, float)) else TESTED
        self.name_file = Path(names) if names else None
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        return read_parts(self.paths, self.name_file)


def read_parts(paths: Mapping[str, Path], name_file: Path | None = None) -> dict[str, Part]:
    """The parts of a set by name, with the same columns and labels."""
    read = {name: read_rows(path) for name, path in paths.items()}
    labels = max(found.labels for found in read.values())
    width = max(found.features.shape[1] for found in read.values())
    names = read_names(name_file, "label") if name_file else None
    if names is not None and len(names) < labels:
        raise UserError(f"'{name_file}' names {len(names)} labels; the rows have labels up to {labels - 1}")
    parts = {}
    for name, found in read.items():
        found.features.resize(len(found.positives), width)
        parts[name] = part(name, found.features, found.positives, names, labels=None if names else labels)
    return parts


@dataclass(frozen=True)
class SparseRows:
    """All rows of a file, or some of them."""

    features: sparse.csr_array[Any]  # [N, D] float32
    positives: list[list[int]]
    labels: int  # C: of the header, or one more than the largest that occurs


def read_rows(path: Path) -> SparseRows:
    """Rows `3,17,40 0:1.5 7:0.25`, as LIBSVM and the extreme-classification repository publish them.

    A first line of three numbers (items, features, labels) is the header of the latter. A row may have no label, then
    it starts with a blank or with its first feature. Features keep their numbers: a file that counts from 1 leaves
    column 0 empty.
    """
    found = next(row_blocks(path, None), None)
    if found is None:
        raise wrong(path, "has no rows; is it complete?")
    return found


def row_blocks(path: Path, rows: int | None) -> Iterator[SparseRows]:
    """The same, up to so many rows at a time."""
    sizes: list[int] | None = None
    some, total = _Some(), 0
    for number, line in lines(path):
        line = line.partition("#")[0].rstrip()
        words = line.split()
        if number == 1 and len(words) == 3 and not any(sign in line for sign in ":,"):
            sizes = [whole(path, word, number, "a size", MOST_FEATURES, first=1) for word in words]
            continue
        if not line and sizes is None:
            continue  # a blank line; after a header it is an item without labels and features
        labels = [] if not words or ":" in words[0] or line[0].isspace() else words.pop(0).split(",")
        most = min(sizes[2] if sizes else MOST_LABELS, MOST_LABELS)
        some.positives.append([whole(path, word, number, "a label", most) for word in labels])
        some.add_features(path, number, words, sizes[1] if sizes else MOST_FEATURES)
        total += 1
        if len(some.positives) == rows:
            yield some.rows(path, sizes)
            some = _Some()
    if sizes and total != sizes[0]:
        raise wrong(path, f"has {total:,} rows; its first line promises {sizes[0]:,}: is it complete?")
    if some.positives:
        yield some.rows(path, sizes)


class _Some:
    """Rows that are being read."""

    def __init__(self) -> None:
        self.data, self.indices, self.ends = array("f"), array("i"), array("q", [0])
        self.positives: list[list[int]] = []

    def add_features(self, path: Path, number: int, words: list[str], below: int) -> None:
        found = set()
        for word in words:
            place, colon, value = word.partition(":")
            if not colon:
                raise wrong(path, f"{shown(word)} is not understood; expected feature:value", number)
            if place == "qid":
                continue
            column = whole(path, place, number, "a feature", below)
            amount = number_of(value)
            if amount is None or abs(amount) > 3e38:
                raise wrong(path, f"feature {column} is {shown(value)}; expected a number", number)
            if column in found:
                raise wrong(path, f"feature {column} is there twice; expected each once", number)
            found.add(column)
            self.indices.append(column)
            self.data.append(amount)
        self.ends.append(len(self.indices))

    def rows(self, path: Path, sizes: list[int] | None) -> SparseRows:
        highest = max((max(labels, default=-1) for labels in self.positives), default=-1)
        columns = np.array(self.indices, np.int32)
        width = sizes[1] if sizes else int(columns.max(initial=-1)) + 1
        limits.refuse_sparse(path, len(self.positives), width)
        matrix = sparse.csr_array(
            (np.array(self.data, np.float32), columns, np.array(self.ends, np.int64)),
            shape=(len(self.positives), max(width, 1)),
        )
        matrix.sort_indices()
        return SparseRows(matrix, self.positives, sizes[2] if sizes else highest + 1)
