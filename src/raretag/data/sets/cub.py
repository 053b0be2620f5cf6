"""CUB-200-2011: 11,788 photographs of birds with 312 attributes, 31 of them per image.

https://www.vision.caltech.edu/datasets/cub_200_2011, unpacked as `CUB_200_2011/`, with `attributes.txt` beside that
folder (as in the archive) or in `CUB_200_2011/attributes/`.

Official split: 5,994 + 5,794 images; a share of the training images is held out for validation. Annotators also said
how sure they were. What they called "not visible" counts as negative in the papers; `not_visible: unknown` says what
it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from raretag.data.dataset import Inputs
from raretag.data.files import inside, lines, shown, whole, wrong
from raretag.data.sets.named import NamedSet, Place, Splits
from raretag.labels.store import LabelStore

FILES = (
    "CUB_200_2011/images.txt",
    "CUB_200_2011/train_test_split.txt",
    "CUB_200_2011/attributes/image_attribute_labels.txt",
    "attributes.txt|CUB_200_2011/attributes/attributes.txt|CUB_200_2011/attributes.txt",
)
MOST_IMAGES = 1_000_000
NOT_VISIBLE = 1  # of four certainties: not visible, guessing, probably, definitely


class Cub(NamedSet):
    name = "cub"

    def __init__(
        self,
        *,
        not_visible: Literal["negative", "unknown"] = "negative",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        self.not_visible, self.size, self.validation, self.seed = not_visible, size, validation, seed
        self.place = Place("cub", __doc__, root)

    def splits(self) -> Splits:
        images = read_numbered(self.place.file(FILES[0]), "image")
        names = read_numbered(self.place.file(FILES[3]), "attribute", 10_000)
        training = read_training_part(self.place.file(FILES[1]), len(images))
        present, visible = read_attributes(self.place.file(FILES[2]), len(images), len(names))
        if self.not_visible == "unknown":
            present[~visible] = -1
        store = LabelStore.from_dense(present, names=names, ids=images)
        train, test = store.take(np.nonzero(training)[0]), store.take(np.nonzero(~training)[0])
        return Splits.held_out(train, test, self.validation, self.seed).remarked(not_visible=self.not_visible)

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        source = self.place.file(FILES[0])
        folder = source.parent / "images"
        paths = inside(folder, list(map(str, store.ids)), lambda row: f"'{source}'", published=True)
        return self.place.images(list(map(Path, paths)), self.size, self.seed)


def read_numbered(path: Path, what: str, most: int = MOST_IMAGES) -> list[str]:
    """Lines `number text`, with numbers from 1 upwards."""
    found: list[str] = []
    for number, line in lines(path, longest=1 << 16):
        place, _, text = line.strip().partition(" ")
        if not place:
            continue
        if whole(path, place, number, f"the number of the {what}", most + 1, first=1) != len(found) + 1 or not text:
            raise wrong(path, f"{shown(line)} is not understood; expected `{len(found) + 1} {what}`", number)
        found.append(text.strip())
    if len(set(found)) < len(found) or not found:
        raise wrong(path, f"names no {what} or one twice; expected each once")
    return found


def read_training_part(path: Path, images: int) -> NDArray[np.bool_]:
    """Lines `image 0/1`: is it a training image? [N]"""
    part = np.full(images, -1, np.int8)
    for number, line in lines(path, longest=1 << 16):
        words = line.split()
        if len(words) != 2:
            raise wrong(path, f"{shown(line)} is not understood; expected `image 0` or `image 1`", number)
        image = whole(path, words[0], number, "the image", images + 1, first=1) - 1
        if part[image] >= 0:
            raise wrong(path, f"the image {image + 1} was listed before; expected each once", number)
        part[image] = whole(path, words[1], number, "the part", 2)
    if (part < 0).any():
        raise wrong(path, f"does not list image {int(np.argmax(part < 0)) + 1}; expected a line for each image")
    training: NDArray[np.bool_] = part == 1
    return training


def read_attributes(path: Path, images: int, labels: int) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Lines `image attribute present certainty time`: 1, 0 or -1 where no line is [N, C]; and was it visible? [N, C]

    A few lines of the published file have extra columns near the end; the first four are used.
    """
    present = np.full((images, labels), -1, np.int8)
    visible = np.zeros((images, labels), np.bool_)
    for number, line in lines(path, longest=1 << 16):
        words = line.split()
        if not 4 <= len(words) <= 8:
            raise wrong(path, f"{shown(line)} is not understood; expected `image attribute present certainty`", number)
        image = whole(path, words[0], number, "the image", images + 1, first=1) - 1
        label = whole(path, words[1], number, "the attribute", labels + 1, first=1) - 1
        if present[image, label] >= 0:
            raise wrong(path, f"image {image + 1}, attribute {label + 1} was listed before; expected each once", number)
        present[image, label] = whole(path, words[2], number, "whether it is present", 2)
        visible[image, label] = whole(path, words[3], number, "the certainty", 5, first=1) != NOT_VISIBLE
    return present, visible
