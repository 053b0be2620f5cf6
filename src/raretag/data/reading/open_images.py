"""Human-verified image labels of Open Images, as they stream by: `ImageID,Source,LabelName,Confidence`.

A file has tens of millions of lines, so a line leaves behind 4 bytes and an image 24. Image ids are 16 hexadecimal
digits and are kept as numbers.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from raretag.data.reading.bounded import lines, shown, wrong
from raretag.labels.entries import Entries
from raretag.labels.rows import Rows
from raretag.labels.store import LabelStore

COLUMNS = ("ImageID", "Source", "LabelName", "Confidence")
_STATE = {"1": 1, "1.0": 1, "0": 0, "0.0": 0}
_ID = re.compile("[0-9a-f]{16}")
_LONGEST = 4096  # bytes of a line
_BLOCK = 1 << 20  # lines that are packed together


class HexIds(Sequence[str]):
    """Image ids as numbers, spelt out when one is asked for."""

    def __init__(self, numbers: NDArray[np.uint64]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> HexIds: ...
    def __getitem__(self, place: Any) -> Any:
        return HexIds(self.numbers[place]) if isinstance(place, slice) else f"{int(self.numbers[place]):016x}"


def descriptions(path: Path) -> dict[str, str]:
    """Label ids (`/m/0cmf2`) and what they are called. Two labels that are called the same keep their ids as names."""
    found: dict[str, str] = {}
    for number, line in lines(path, longest=1 << 16):
        key, comma, name = line.partition(",")
        if number == 1 and key == "LabelName":
            continue
        if not comma or not key or not name.strip():
            raise wrong(path, f"{shown(line)} is not understood; expected `label id,name`", number)
        if key in found:
            raise wrong(path, f"the label {shown(key)} was there before; expected each once", number)
        found[key] = name.strip().strip('"')
    if not found:
        raise wrong(path, "names no labels")
    names, twice = set[str](), set[str]()
    for name in found.values():
        (twice if name in names else names).add(name)
    return {key: f"{name} ({key})" if name in twice else name for key, name in found.items()}


def verified(path: Path, labels: dict[str, int], names: Sequence[str], others: str = "refuse") -> LabelStore:
    """Labels that people confirmed (positive) or denied (negative); all others are unknown.

    `labels` gives the column of each label id; lines of other labels are refused or, with "skip", left out.
    """
    gathered = _Gathered(path, names)
    add_row, add_label, add_state = gathered.row.append, gathered.label.append, gathered.state.append
    stream = lines(path, _LONGEST)
    first, last = next(stream)[1], ""
    if tuple(first.split(",")[:4]) != COLUMNS:
        raise wrong(path, f"starts with {shown(first)}; expected the columns {','.join(COLUMNS)}", 1)
    for number, line in stream:
        words = line.split(",")
        if len(words) < 4:
            raise wrong(path, f"{shown(line)} has {len(words)} columns; expected {len(COLUMNS)}", number)
        label = labels.get(words[2], -1)
        if label < 0:
            if others == "skip":
                continue
            raise wrong(path, f"the label {shown(words[2])} has no description; is that file of this version?", number)
        state = _STATE.get(words[3], -1)
        if state < 0:
            raise wrong(path, f"the confidence is {shown(words[3])}; expected 0 or 1, as people give it", number)
        if words[0] != last:
            gathered.next_image(_image(path, words[0], number))
            last = words[0]
        add_row(gathered.image)
        add_label(label)
        add_state(state)
    return gathered.store()


class _Gathered:
    """Lines that were read, packed whenever there are many. An image is a run of lines with one id."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, names
        self.ids = array("Q")
        self.image = -1  # place of the image in the block
        self.row, self.label, self.state = array("i"), array("i"), array("b")
        self.positives: list[Rows] = []
        self.negatives: list[Rows] = []

    def next_image(self, number: int) -> None:
        if len(self.row) >= _BLOCK:
            self.pack()
        self.ids.append(number)
        self.image += 1

    def pack(self) -> None:
        row, label = np.array(self.row, np.int32), np.array(self.label, np.int32)
        yes = np.array(self.state, np.bool_)
        positives, negatives = (
            Rows.of_pairs(row[these], label[these], self.image + 1, len(self.names)) for these in (yes, ~yes)
        )
        self.check(positives, negatives, len(self.ids) - self.image - 1)
        self.positives.append(positives)
        self.negatives.append(negatives)
        del self.row[:], self.label[:], self.state[:]
        self.image = -1

    def check(self, positives: Rows, negatives: Rows, first: int) -> None:
        both = np.intersect1d(positives.keys(len(self.names)), negatives.keys(len(self.names)), assume_unique=True)
        if both.size:
            row, label = divmod(int(both[0]), len(self.names))
            called = f"image {self.ids[first + row]:016x} has the label {shown(self.names[label])}"
            raise wrong(self.path, f"{called} as confirmed and as denied; expected one of the two")

    def store(self) -> LabelStore:
        if not self.ids:
            raise wrong(self.path, "has no labels")
        self.pack()
        positives, negatives = Rows.joined(self.positives), Rows.joined(self.negatives)
        self.positives, self.negatives = [], []
        ids = np.array(self.ids, np.uint64)
        unique, of_run = np.unique(ids, return_inverse=True)
        if len(unique) < len(ids):  # the lines of an image do not stand together
            self.ids = array("Q", unique.tolist())
            positives, negatives = (
                Rows.of_pairs(of_run[rows.row], rows.indices, len(unique), len(self.names))
                for rows in (positives, negatives)
            )
            self.check(positives, negatives, 0)
            ids = unique
        listed = negatives if len(negatives.indices) else None
        return LabelStore(
            Entries.of_lists(positives, len(self.names), "unknown", listed), tuple(self.names), HexIds(ids)
        )


def _image(path: Path, word: str, number: int) -> int:
    if not _ID.fullmatch(word):
        raise wrong(path, f"the image id is {shown(word)}; expected 16 hexadecimal digits", number)
    return int(word, 16)
