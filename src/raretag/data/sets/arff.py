"""Your own multi-label ARFF files, of MULAN or MEKA, dense or sparse.

Give `train` and, if there is one, `test`; for MULAN also `labels`, its XML file. MEKA files say by `-C n` which
attributes are labels.

A label `?` is unknown. Without a test file a stratified part of the items is held out for it; `test` may also be the
share of the items that it gets.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from raretag.core.errors import UserError
from raretag.data import limits
from raretag.data.files import lines, parse_xml, shown, wrong
from raretag.data.sets.named import TESTED, FeatureRows, Part, part
from raretag.labels.store import LabelStore

FILES = ()
MOST_ATTRIBUTES = 2_000_000
_NAME = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)"""
_ATTRIBUTE = re.compile(rf"@attribute\s+{_NAME}\s*(\S.*)", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_MEKA = re.compile(r"-C\s+(-?\d{1,9})\b")
_STATES = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}


class Arff(FeatureRows):
    name = "arff"

    def __init__(
        self, *, train: str, test: str | float = "", labels: str = "", validation: float = 0.1, seed: int = 0
    ) -> None:
        self.paths = {"train": Path(train)} | ({"test": Path(test)} if test and isinstance(test, str) else {})
        self.tested = test if isinstance(test, (int, float)) else TESTED
        self.label_file = Path(labels) if labels else None
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        found = {name: arff_part(name, path, self.label_file) for name, path in self.paths.items()}
        if len({one.labels.names for one in found.values()}) > 1:
            raise UserError(
                "the ARFF files for train and test do not have the same labels; do they belong to one data set?"
            )
        return found


def arff_part(name: str, path: Path, labels: Path | None) -> Part:
    """A file; `labels` is MULAN's list of labels, None if the file itself marks the attributes that are labels."""
    names = None if labels is None else label_names(labels)
    found = read_arff(path, names)
    known = part(name, found.features, found.positives, found.label_names)
    if not any(found.unknown):
        return known
    items, labels_ = len(known.labels), known.labels.labels
    limits.refuse_large(path, 4 * items * labels_, f"{items:,} items x {labels_:,} labels, of which some are unknown,")
    values = known.labels.dense()
    for row, unknown in enumerate(found.unknown):
        values[row, unknown] = float("nan")
    return Part(found.features, LabelStore.from_dense(values, names=found.label_names, ids=known.labels.given_ids))


@dataclass(frozen=True)
class ArffTable:
    """All rows of a file."""

    features: Any  # [N, D] float32, an array or a csr_array
    feature_names: list[str]
    label_names: list[str]
    positives: list[list[int]]  # the positive labels of each row
    unknown: list[list[int]]


def read_arff(path: Path, labels: Sequence[str] | None = None) -> ArffTable:
    """All rows of a file, dense or sparse; `labels` are the names of the label attributes, if it does not mark them.

    MULAN lists the labels in an XML file, MEKA marks them by `-C n` in the relation's name: the first n, or the last n
    if n is negative. A label `?` is unknown; a feature `?` is refused. A nominal feature is the number that its value
    spells, or the place of the value in the list.
    """
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
        places = set()
        for word in line[1:-1].split(",") if line[1:-1].strip() else ():
            place, _, value = word.strip().partition(" ")
            known = place.isascii() and place.isdigit() and len(place) < 10 and int(place) < len(self.attributes)
            if not known or not value:
                last = len(self.attributes) - 1
                raise wrong(
                    self.path, f"{shown(word)} is not understood; expected a place up to {last} and a value", number
                )
            if int(place) in places:
                raise wrong(self.path, f"the place {place} is there twice; expected each once", number)
            places.add(int(place))
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

    def table(self) -> ArffTable:
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
        feature_names = [names[column] for column in self.feature]
        return ArffTable(features, feature_names, label_names, self.positives, self.unknown)


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


@dataclass(frozen=True)
class Attribute:
    """A column, as the header declares it."""

    name: str
    values: tuple[str, ...] | None  # None: numeric


def label_names(path: Path) -> list[str]:
    """The labels of MULAN's XML file, in its order, which may be a hierarchy."""
    names = [element.get("name", "") for element in parse_xml(path).iter("label")]
    if not names or not all(names):
        raise wrong(path, "names no labels; expected <label name=...> elements")
    if len(set(names)) < len(names):
        raise wrong(path, "names a label twice; expected each once")
    return names


def header(path: Path, stream: Iterator[tuple[int, str]]) -> tuple[list[Attribute], int | None]:
    """The attributes, and MEKA's number of labels if there is one; `stream` stands behind `@data` then."""
    attributes: dict[str, Attribute] = {}
    meka = None
    for number, line in stream:
        line = line.strip()
        word = line.split(None, 1)[0].lower() if line else ""
        if word == "@relation" and (found := _MEKA.search(line)):
            meka = int(found[1])
        elif word == "@attribute":
            attribute = _attribute(path, line, number)
            if attribute.name in attributes:
                raise wrong(path, f"the attribute {shown(attribute.name)} was there before; expected each once", number)
            if len(attributes) == MOST_ATTRIBUTES:
                raise wrong(path, f"has more than {MOST_ATTRIBUTES:,} attributes", number)
            attributes[attribute.name] = attribute
        elif word == "@data":
            return list(attributes.values()), meka
        elif word and word != "@relation" and not word.startswith("%"):
            raise wrong(path, f"{shown(line)} is not understood; expected @relation, @attribute or @data", number)
    raise wrong(path, "has no @data; is this an ARFF file, and is it complete?")


def _attribute(path: Path, line: str, number: int) -> Attribute:
    found = _ATTRIBUTE.fullmatch(line)
    if not found:
        raise wrong(path, f"{shown(line)} is not understood; expected @attribute name type", number)
    name, kind = plain(found[1]), found[2].strip()
    if kind.lower() in ("numeric", "real", "integer"):
        return Attribute(name, None)
    if kind.startswith("{") and kind.endswith("}"):
        values = words(path, kind[1:-1], number)
        if len(set(values)) < len(values):
            raise wrong(path, f"the attribute {shown(name)} lists a value twice", number)
        return Attribute(name, tuple(values))
    raise wrong(path, f"the attribute {shown(name)} is of type {shown(kind)}; expected numeric or {{a,b}}", number)


def label_places(path: Path, attributes: list[Attribute], meka: int | None, labels: Sequence[str] | None) -> list[int]:
    """Which attributes are labels, in the order of the labels."""
    if labels is not None:
        place = {attribute.name: column for column, attribute in enumerate(attributes)}
        absent = [name for name in labels if name not in place]
        if absent:
            raise wrong(path, f"has no attribute for the label {shown(absent[0])}; is the list of labels of this set?")
        return [place[name] for name in labels]
    if meka is None or not 0 < abs(meka) <= len(attributes):
        reason = "no `-C n` in its @relation" if meka is None else f"-C {meka} for {len(attributes)} attributes"
        raise wrong(path, f"does not say which attributes are labels ({reason}); give MULAN's XML file of labels")
    count = len(attributes)
    return list(range(meka)) if meka > 0 else list(range(count + meka, count))


def words(path: Path, text: str, number: int) -> list[str]:
    """Values between commas; quotes may hold commas."""
    if "'" not in text and '"' not in text:
        return [word.strip() for word in text.split(",")]
    found, place = [], 0
    while place >= 0:  # by hand: an expression for all of it takes the cube of the length of a run of blanks
        while text[place : place + 1].isspace():
            place += 1
        quoted = _QUOTED.match(text, place)
        comma = text.find(",", quoted.end() if quoted else place)
        rest = text[quoted.end() if quoted else place : comma if comma >= 0 else None].strip()
        if (quoted and rest) or "'" in rest or '"' in rest:
            raise wrong(path, f"{shown(text)} has quotes that do not match", number)
        found.append(plain(quoted[0]) if quoted else rest)
        place = comma + 1 or -1
    return found


def number_of(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in word else None


def plain(word: str) -> str:
    """Without quotes and backslashes."""
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return word
