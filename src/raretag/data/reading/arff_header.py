"""What stands before the rows of an ARFF file, and how its words are spelt."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from raretag.data.reading.bounded import shown, wrong
from raretag.data.reading.xml import parse

MOST_ATTRIBUTES = 2_000_000
_NAME = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)"""
_ATTRIBUTE = re.compile(rf"@attribute\s+{_NAME}\s*(\S.*)", re.IGNORECASE)
_WORD = re.compile(r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,'"]*?)\s*(?:,|$)""")
_MEKA = re.compile(r"-C\s+(-?\d{1,9})\b")


@dataclass(frozen=True)
class Attribute:
    name: str
    values: tuple[str, ...] | None  # None: numeric


def label_names(path: Path) -> list[str]:
    """The labels of MULAN's XML file, in its order, which may be a hierarchy."""
    names = [element.get("name", "") for element in parse(path).iter("label")]
    if not names or not all(names):
        raise wrong(path, "names no labels; expected <label name=...> elements")
    if len(set(names)) < len(names):
        raise wrong(path, "names a label twice; expected each once")
    return names


def header(path: Path, stream: Iterator[tuple[int, str]]) -> tuple[list[Attribute], int | None]:
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
    while place <= len(text):
        match = _WORD.match(text, place)
        if match is None:
            raise wrong(path, f"{shown(text)} has quotes that do not match", number)
        found.append(plain(match[1]))
        if match.end() == len(text) and not match[0].endswith(","):
            break
        place = match.end()
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
