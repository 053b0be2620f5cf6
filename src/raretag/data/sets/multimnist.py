"""Two MNIST digits in one image, long-tailed: the imbalanced MultiMNIST of the PLM paper.

The four IDX files of MNIST (gzipped or not; https://yann.lecun.com/exdb/mnist or any mirror) in `mnist/`.

Duarte et al., "PLM: Partial Label Masking for Imbalanced Multi-label Classification", 2021, appendix C. The 14,694
training images are a long-tailed list of digits (n_c = n_0 / 100^(c/9)), each superimposed with another digit of that
list. Test: every digit of MNIST's test part with one digit of each of the other nine classes, 90,000 images. A digit is
padded to 32 x 32 and moved by -6 to 6 pixels both ways, so it may leave the frame in part.

Left open by the paper, and decided here: the partner is any other digit of the list, drawn with replacement; where two
digits overlap the brighter pixel stays; which digits of a class are on the list is drawn by `seed`.

The paper has no validation part. By default it is made of training digits that the long tail left over, as balanced as
the test. No zeros are left over, so zeros of the training list are shown again, moved and paired anew: results for the
zero are a little too good there. `validation: 0.1` holds out a share of the training images instead.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.data.dataset import DataSet, Items
from raretag.data.files import MEGABYTE, read, shown, wrong
from raretag.data.sets.named import Place, drawn, remaining
from raretag.labels.longtail import exponential
from raretag.labels.rows import Ints
from raretag.labels.split import split
from raretag.labels.store import LabelStore

FILES = (
    "mnist/train-images-idx3-ubyte.gz|mnist/train-images-idx3-ubyte|mnist/train-images.idx3-ubyte",
    "mnist/train-labels-idx1-ubyte.gz|mnist/train-labels-idx1-ubyte|mnist/train-labels.idx1-ubyte",
    "mnist/t10k-images-idx3-ubyte.gz|mnist/t10k-images-idx3-ubyte|mnist/t10k-images.idx3-ubyte",
    "mnist/t10k-labels-idx1-ubyte.gz|mnist/t10k-labels-idx1-ubyte|mnist/t10k-labels.idx1-ubyte",
)
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PAD, SHIFT = 2, 6  # pixels
_PURPOSE = int.from_bytes(b"mnist", "big")


class Multimnist:
    def __init__(
        self,
        *,
        largest: int = 0,
        ratio: float = 100.0,
        validation: float = 0.0,
        validation_digits: int = 20,
        test_items: int = 0,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if not 0 <= validation < 1:
            raise UserError(f"multimnist.validation is {validation}; expected a share of the training images, below 1")
        self.largest, self.ratio, self.seed = largest, ratio, seed  # largest 0: all zeros that there are
        self.validation, self.validation_digits = validation, validation_digits  # digits of each class
        self.test_items = test_items  # 0: all 90,000
        self.place = Place("multimnist", __doc__, root)

    def labels(self) -> dict[str, LabelStore]:
        return {name: pairs.labels for name, pairs in self._pairs()[0].items()}

    def load(self) -> DataSet:
        pairs, remarks = self._pairs()
        images = {"train": self._images(FILES[0]), "test": self._images(FILES[2])}
        images["validation"] = images["train"]
        items = {name: Items(Superimposed(images[name], pair), pair.labels) for name, pair in pairs.items()}
        notes: dict[str, Any] = {"largest": self.largest, "ratio": self.ratio, "seed": self.seed}
        return DataSet(
            "multimnist", items["train"], items["validation"], items["test"], notes=notes, remarks=tuple(remarks)
        )

    def _pairs(self) -> tuple[dict[str, Pairs], list[str]]:
        """The pairs of each part, and remarks about them."""
        digit, test_digit = self._digits(FILES[1]), self._digits(FILES[3])
        single = LabelStore.from_lists([[d] for d in digit.tolist()], names=NAMES)
        listed = exponential(single, self.ratio, self.seed, self.largest or None)
        others = drawn(len(listed), len(listed) - 1, _PURPOSE, self.seed, 1)
        partner = listed[(np.arange(len(listed)) + 1 + others) % len(listed)]  # anyone but itself
        train = Pairs(digit, listed, partner, self.seed, 1)
        test = balanced(test_digit, np.arange(len(test_digit)), self.seed, 2)
        remarks = []
        if 0 < self.test_items < len(test):
            test = test.take(np.sort(chance.permutation(len(test), _PURPOSE, self.seed, 3)[: self.test_items].numpy()))
            remarks.append(f"test: {self.test_items:,} of the {9 * len(test_digit):,} images, drawn by the seed")
        if self.validation:
            kept, held = split(train.labels, [1 - self.validation, self.validation], self.seed).parts
            remarks.append(f"validation: {len(held):,} training images, held out")
            return {"train": train.take(kept), "validation": train.take(held), "test": test}, remarks
        rows, short = remaining(digit, listed, self.validation_digits, self.seed)
        again = f"; of {', '.join(NAMES[d] for d in short)} training digits are shown again" if short else ""
        remarks.append(f"validation: training digits that the long tail left over, balanced{again}; the paper has none")
        return {"train": train, "validation": balanced(digit, rows, self.seed, 4), "test": test}, remarks

    def _digits(self, names: str) -> Ints:
        path = self.place.file(names)
        digit = read_idx(path, 1).astype(np.int64)
        if digit.max() > 9 or len(np.unique(digit)) < 10:
            raise wrong(path, f"holds {len(np.unique(digit))} different labels up to {digit.max()}; expected 0 to 9")
        return digit

    def _images(self, names: str) -> Tensor:
        return torch.from_numpy(read_idx(self.place.file(names), 3).copy())  # [N, 28, 28] uint8


class Pairs:
    """Which digits are superimposed, and by how many pixels each is moved."""

    def __init__(self, digit: Ints, first: Ints, partner: Ints, seed: int, purpose: int) -> None:
        self.first, self.partner = first, partner  # [N] rows of MNIST
        moves = [drawn(len(first), 2 * SHIFT + 1, _PURPOSE, seed, purpose, axis) - SHIFT for axis in range(2, 6)]
        self.moves = np.stack(moves, axis=1).astype(np.int8)  # [N, 4]: down and right, of the first and of the partner
        rows = np.stack([digit[first], digit[partner]], axis=1).tolist()
        self.labels = LabelStore.from_lists(rows, names=NAMES)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: Ints) -> Pairs:
        some = object.__new__(Pairs)
        some.first, some.partner, some.moves = self.first[rows], self.partner[rows], self.moves[rows]
        some.labels = self.labels.take(rows)
        return some


def balanced(digit: Ints, pool: Ints, seed: int, purpose: int) -> Pairs:
    """Each digit of the pool with one of every other class."""
    first, partner = [], []
    for label in range(10):
        of_label, others = pool[digit[pool] == label], pool[digit[pool] != label]
        first.append(others)
        partner.append(of_label[drawn(len(others), len(of_label), _PURPOSE, seed, purpose, 1, label)])
    return Pairs(digit, np.concatenate(first), np.concatenate(partner), seed, purpose)


class Superimposed:
    """Images that are put together when they are asked for."""

    def __init__(self, images: Tensor, pairs: Pairs) -> None:
        self.images = images  # [n, 28, 28] uint8
        self.first, self.partner = torch.from_numpy(pairs.first), torch.from_numpy(pairs.partner)
        self.moves = torch.from_numpy(pairs.moves)

    def __len__(self) -> int:
        return len(self.first)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        moves = self.moves[rows].long()
        one = moved(self.images[self.first[rows]], moves[:, 0], moves[:, 1])
        other = moved(self.images[self.partner[rows]], moves[:, 2], moves[:, 3])
        return torch.maximum(one, other)[:, None].float() / 255.0  # [B, 1, 32, 32]

    def content(self, rows: Tensor) -> Tensor:
        """Of both digits and how they were moved."""
        digits = [chance.of_rows(self.images[of[rows]].numpy()) for of in (self.first, self.partner)]
        return chance.key(*digits, chance.of_rows(self.moves[rows].numpy()))


def moved(digits: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each digit on a larger black canvas, moved by its own number of pixels; what leaves the frame is cut off."""
    size, frame = digits.shape[-1], digits.shape[-1] + 2 * PAD
    canvas = digits.new_zeros(len(digits), frame + 2 * SHIFT, frame + 2 * SHIFT)
    rows = torch.arange(size) + PAD + SHIFT + down[:, None]  # [B, 28]
    columns = torch.arange(size) + PAD + SHIFT + right[:, None]
    canvas[torch.arange(len(digits))[:, None, None], rows[:, :, None], columns[:, None, :]] = digits
    return canvas[:, SHIFT : SHIFT + frame, SHIFT : SHIFT + frame]


def read_idx(path: Path, dimensions: int, limit: int = 512 * MEGABYTE) -> NDArray[np.uint8]:
    """An array of the IDX format (a header of big-endian sizes, then unsigned bytes), gzipped or not."""
    data = read(path, limit)
    if data[:4] != bytes([0, 0, 8, dimensions]):
        expected = f"IDX file of unsigned bytes with {dimensions} dimensions"
        raise wrong(path, f"starts with {shown(data[:4])}; expected an {expected}")
    header = 4 + 4 * dimensions
    shape = [int.from_bytes(data[place : place + 4], "big") for place in range(4, header, 4)]
    if len(data) < header or len(data) - header != math.prod(shape):
        raise wrong(path, f"has {len(data) - header:,} bytes for an array of {shape}; was the download interrupted?")
    if not math.prod(shape):
        raise wrong(path, f"holds an array of {shape}; expected at least one item")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
