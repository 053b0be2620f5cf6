"""Multi-label ARFF files of MULAN and MEKA, dense or sparse.

Which attributes are labels is said by an XML file (MULAN) or by `-C n` in the relation's name (MEKA: the first n, or
the last n if n is negative). A label `?` is unknown; a feature `?` is refused. A nominal feature is the number that
its value spells, or the place of the value in the list.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from raretag.data.reading.arff_header import Attribute, header, label_places, number_of, words
from raretag.data.reading.bounded import lines, shown, wrong

_STATES = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}


@dataclass(frozen=True)
class Table:
    features: Any  # [N, D] float32, an array or a csr_array
    feature_names: list[str]
    label_names: list[str]
    positives: list[list[int]]  # the positive labels of each row
    unknown: list[list[int]]


def table(path: Path, labels: Sequence[str] | None = None) -> Table:
    """All rows of a file; `labels` are the names of the label attributes, if the file itself does not say."""
    stream = lines(path)
    attributes, meka = header(path, stream)
    columns = _Columns(path, attributes, label_places(path, attributes, meka, labels))
    for number, line in stream:
        line = line.strip()
        if line and not line.startswith("%"):
            columns.add(line, number)
    return columns.table()


class _Columns:
    """Rows as they are read, in flat arrays."""

    def __init__(self, path: Path, attributes: list[Attribute], label_places: list[int]) -> None:
        self.path, self.attributes = path, attributes
        self.label = {column: label for label, column in enumerate(label_places)}
        features = [column for column in range(len(attributes)) if column not in self.label]
        self.feature = {column: place for place, column in enumerate(features)}
        self.values = [_numbers(attribute, column in self.label) for column, attribute in enumerate(attributes)]
        self.data, self.indices, self.ends = array("f"), array("i"), array("q", [0])
        self.positives: list[list[int]] = []
        self.unknown: list[list[int]] = []
        self.sparse: bool | None = None

    def add(self, line: str, number: int) -> None:
        is_sparse = line.startswith("{")
        if self.sparse is None:
            self.sparse = is_sparse
            self._check_first_values()
        if is_sparse != self.sparse:
            raise wrong(self.path, "sparse and dense rows are mixed; expected all of one kind", number)
        positives, unknown = [], []
        for column, word in self._sparse(line, number) if is_sparse else self._dense(line, number):
            label = self.label.get(column)
            if label is None:
                self.indices.append(self.feature[column])
                self.data.append(self._number(column, word, number))
            elif word == "?":
                unknown.append(label)
            elif self._number(column, word, number):
                positives.append(label)
        self.ends.append(len(self.indices))
        self.positives.append(positives)
        self.unknown.append(unknown)

    def _sparse(self, line: str, number: int) -> Iterator[tuple[int, str]]:
        if not line.endswith("}"):
            raise wrong(self.path, f"{shown(line)} is not understood; expected {{place value, ...}}", number)
        seen = set()
        for word in line[1:-1].split(",") if line[1:-1].strip() else ():
            place, _, value = word.strip().partition(" ")
            known = place.isascii() and place.isdigit() and len(place) < 10 and int(place) < len(self.attributes)
            if not known or not value:
                last = len(self.attributes) - 1
                raise wrong(
                    self.path, f"{shown(word)} is not understood; expected a place up to {last} and a value", number
                )
            if int(place) in seen:
                raise wrong(self.path, f"the place {place} is there twice; expected each once", number)
            seen.add(int(place))
            yield int(place), value.strip()

    def _dense(self, line: str, number: int) -> Iterator[tuple[int, str]]:
        found = words(self.path, line, number)
        if len(found) != len(self.attributes):
            raise wrong(self.path, f"has {len(found)} values; expected {len(self.attributes)}", number)
        return enumerate(found)

    def _number(self, column: int, word: str, number: int) -> float:
        values, name = self.values[column], self.attributes[column].name
        if values is not None:
            if word not in values:
                expected = ", ".join(list(values)[:8])
                raise wrong(self.path, f"{shown(name)} is {shown(word)}; expected one of {expected}", number)
            return values[word]
        found = number_of(word)
        if found is None or abs(found) > 3e38:
            raise wrong(self.path, f"{shown(name)} is {shown(word)}; expected a number", number)
        if column in self.label and found not in (0.0, 1.0):
            raise wrong(self.path, f"the label {shown(name)} is {shown(word)}; expected 0, 1 or ?", number)
        return found

    def _check_first_values(self) -> None:
        """A sparse row leaves out the first value of a nominal attribute, whatever it is; here that must mean 0."""
        for attribute, values in zip(self.attributes, self.values, strict=True):
            if self.sparse and values and next(iter(values.values())) != 0:
                first = next(iter(values))
                what = f"{shown(attribute.name)} lists {shown(first)} first, which sparse rows leave out"
                raise wrong(self.path, f"{what}; expected a value that means 0")

    def table(self) -> Table:
        if not self.positives:
            raise wrong(self.path, "has no rows after @data; is it complete?")
        shape = (len(self.positives), len(self.feature))
        data = np.frombuffer(self.data, np.float32) if len(self.data) else np.zeros(0, np.float32)
        features: Any = data.reshape(shape) if not self.sparse else None
        if features is None:
            indices = np.array(self.indices, np.int32)
            features = sparse.csr_array((data, indices, np.array(self.ends, np.int64)), shape=shape)
            features.sort_indices()
        names = [attribute.name for attribute in self.attributes]
        label_names = [names[column] for column in self.label]
        return Table(features, [names[column] for column in self.feature], label_names, self.positives, self.unknown)


def _numbers(attribute: Attribute, label: bool) -> dict[str, float] | None:
    """What each value of a nominal attribute means."""
    if attribute.values is None:
        return None
    if label:
        return {value: _STATES[value.lower()] for value in attribute.values if value.lower() in _STATES}
    spelt = [number_of(value) for value in attribute.values]
    if None in spelt:
        return {value: float(place) for place, value in enumerate(attribute.values)}
    return {value: number for value, number in zip(attribute.values, spelt, strict=True) if number is not None}
