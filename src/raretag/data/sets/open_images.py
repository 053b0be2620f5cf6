"""Open Images: photographs with thousands of labels, a few verified by people in each; the rest is unknown.

https://storage.googleapis.com/openimages/web/download_v7.html (image labels, human-verified): in `open-images/`, the
files `{train,validation,test}-annotations-human-imagelabels.csv` (or as they are called there, or gzipped) and
`class-descriptions.csv`; images as `open-images/{train,validation,test}/<ImageID>.jpg`.

Confidence 1 is positive, 0 is negative, no line is unknown; lines stream by and leave about ten bytes behind.
`classes` names a file in `open-images/` with the label ids to use, one a line (classes-trainable.txt), else all are.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from raretag.data.dataset import Inputs
from raretag.data.files import inside, lines, read_names, shown, wrong
from raretag.data.sets.named import NamedSet, Place, Splits
from raretag.labels.entries import Entries
from raretag.labels.rows import Rows
from raretag.labels.store import LabelStore

FILES = (
    "open-images/train-annotations-human-imagelabels.csv|open-images/train-annotations-human-imagelabels.csv.gz"
    "|open-images/oidv7-train-annotations-human-imagelabels.csv|open-images/oidv6-train-annotations-human-imagelabels.csv",
    "open-images/validation-annotations-human-imagelabels.csv|open-images/validation-annotations-human-imagelabels.csv.gz"
    "|open-images/oidv7-val-annotations-human-imagelabels.csv",
    "open-images/test-annotations-human-imagelabels.csv|open-images/test-annotations-human-imagelabels.csv.gz"
    "|open-images/oidv7-test-annotations-human-imagelabels.csv",
    "open-images/class-descriptions.csv|open-images/oidv7-class-descriptions.csv|open-images/oidv6-class-descriptions.csv",
)
COLUMNS = ("ImageID", "Source", "LabelName", "Confidence")
_STATE = {"1": 1, "1.0": 1, "0": 0, "0.0": 0}
_ID = re.compile("[0-9a-f]{16}")
_LONGEST = 4096  # bytes of a line
_BLOCK = 1 << 20  # lines that are packed together


class OpenImages(NamedSet):
    name = "open_images"

    def __init__(self, *, classes: str = "", size: int = 224, seed: int = 0, root: Path | None = None) -> None:
        self.classes, self.size, self.seed = classes, size, seed
        self.place = Place("open_images", __doc__, root)

    def splits(self) -> Splits:
        path = self.place.file(FILES[3])
        described = read_descriptions(path)
        ids = list(described)
        if self.classes:
            (file,) = inside(path.parent, [self.classes], lambda row: f"'{path}'", published=True)
            chosen = Path(file)
            ids = read_names(chosen, "label")
            absent = [key for key in ids if key not in described]
            if absent:
                raise wrong(chosen, f"the label '{absent[0]}' has no description in '{path.name}'")
        column = {key: place for place, key in enumerate(ids)}
        names = [described[key] for key in ids]
        others = "skip" if self.classes else "refuse"
        train, validation, test = (read_verified(self.place.file(file), column, names, others) for file in FILES[:3])
        return Splits(train, test, validation, notes={"classes": self.classes or "all"})

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        folder = self.place.file("open-images") / part
        return self.place.images([folder / f"{image}.jpg" for image in store.ids], self.size, self.seed)


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


def read_descriptions(path: Path) -> dict[str, str]:
    """Label ids (`/m/0cmf2`) and their names. Two labels of the same name get their ids added to it."""
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


def read_verified(path: Path, labels: dict[str, int], names: Sequence[str], others: str = "refuse") -> LabelStore:
    """Lines `ImageID,Source,LabelName,Confidence`: labels that people confirmed (positive) or denied (negative).

    All others are unknown. A file has tens of millions of lines, so a line leaves behind 4 bytes and an image 24; image
    ids are 16 hexadecimal digits and are kept as numbers.

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
            problem = f"image {self.ids[first + row]:016x} has the label {shown(self.names[label])}"
            raise wrong(self.path, f"{problem} as confirmed and as denied; expected one of the two")

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
