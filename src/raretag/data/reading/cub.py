"""The text files of CUB-200-2011: images, their official part, attributes, and who saw which attribute how surely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raretag.data.reading.bounded import lines, shown, whole, wrong

MOST_IMAGES = 1_000_000
NOT_VISIBLE = 1  # of four certainties: not visible, guessing, probably, definitely


def numbered(path: Path, what: str, most: int = MOST_IMAGES) -> list[str]:
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


def training_part(path: Path, images: int) -> NDArray[np.bool_]:
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


def attributes(path: Path, images: int, labels: int) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
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
