"""Two handwritten digits in one image, long-tailed: MultiMNIST in small, made from scikit-learn's bundled digits.

Embedded: needs no download. 1,797 real 8 x 8 digits; the construction follows PLM's imbalanced MultiMNIST.

The digits of each class are dealt into three pools, so that no handwriting of the test set was seen in training.
Training and validation: a long-tailed list of digits (n_c = n_0 / ratio^{c/9}), each superimposed with another digit of
that list. Test: each digit of its pool superimposed with one of each of the other nine classes, so it is balanced.
Each digit is padded to 16 x 16 and shifted by up to 3 pixels; where two overlap the brighter pixel stays.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.data.dataset import DataSet, Items, TensorInputs
from raretag.labels.longtail import exponential_counts
from raretag.labels.store import LabelStore

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEST_POOL, VALIDATION_POOL = 40, 30  # digits of each class; the rest, about 108, is for training
PAD, SHIFT = 4, 3  # pixels


class Digits:
    def __init__(self, *, largest: int = 500, ratio: float = 200.0, seed: int = 0) -> None:
        if ratio < 1:
            raise UserError(
                f"digits.ratio is the most frequent digit over the rarest and must be 1 or more, got {ratio}"
            )
        self.largest, self.ratio, self.seed = largest, ratio, seed

    def load(self) -> DataSet:
        images, digit = read()
        test, validation, train = pools(digit, self.seed)
        return DataSet(
            name="digits",
            train=self._long_tailed(images, digit, train, self.largest, purpose=1),
            validation=self._long_tailed(images, digit, validation, self.largest // 2, purpose=2),
            test=self._balanced(images, digit, test, purpose=3),
            notes={
                "source": "scikit-learn load_digits",
                "largest": self.largest,
                "ratio": self.ratio,
                "seed": self.seed,
            },
        )

    def _long_tailed(self, images: Tensor, digit: Tensor, pool: Tensor, largest: int, purpose: int) -> Items:
        counts = exponential_counts(largest, len(NAMES), self.ratio)
        drawn = []
        for label, count in enumerate(counts):
            of_label = pool[digit[pool] == label]
            turns = torch.arange(count)  # a pool smaller than its count is gone through again
            drawn.append(of_label[turns % len(of_label)])
        first = torch.cat(drawn)
        partner = first[_integers(len(first), len(first), self.seed, purpose, 0)]
        return self._superimposed(images, digit, first, partner, purpose)

    def _balanced(self, images: Tensor, digit: Tensor, pool: Tensor, purpose: int) -> Items:
        first, partner = [], []
        for label in range(len(NAMES)):
            of_label, others = pool[digit[pool] == label], pool[digit[pool] != label]
            first.append(others)
            partner.append(of_label[_integers(len(others), len(of_label), self.seed, purpose, 0, label)])
        return self._superimposed(images, digit, torch.cat(first), torch.cat(partner), purpose)

    def _superimposed(self, images: Tensor, digit: Tensor, first: Tensor, partner: Tensor, purpose: int) -> Items:
        shifts = [_integers(len(first), 2 * SHIFT + 1, self.seed, purpose, axis) - SHIFT for axis in range(1, 5)]
        one = shifted(images[first], shifts[0], shifts[1])
        other = shifted(images[partner], shifts[2], shifts[3])
        dense = torch.zeros(len(first), len(NAMES))
        rows = torch.arange(len(first))
        dense[rows, digit[first]] = 1.0
        dense[rows, digit[partner]] = 1.0
        return Items(TensorInputs(torch.maximum(one, other)[:, None]), LabelStore.from_dense(dense, names=NAMES))


def read() -> tuple[Tensor, Tensor]:
    """The images [1797, 8, 8] in [0, 1] and the digit that each shows."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return torch.from_numpy(bunch.images).float() / 16.0, torch.from_numpy(bunch.target).long()


def pools(digit: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Test, validation and training digits: no image is in two of them."""
    order = chance.permutation(len(digit), seed, 0)
    dealt: list[list[Tensor]] = [[], [], []]
    for label in range(len(NAMES)):
        of_label = order[digit[order] == label]
        sizes = [TEST_POOL, VALIDATION_POOL, len(of_label) - TEST_POOL - VALIDATION_POOL]
        for pool, share in zip(dealt, torch.split(of_label, sizes), strict=True):
            pool.append(share)
    test, validation, train = (torch.cat(pool) for pool in dealt)
    return test, validation, train


def shifted(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each image on a larger black canvas, moved by its own number of pixels. [N, 16, 16]"""
    size = images.shape[-1]
    canvas = images.new_zeros(len(images), size + 2 * PAD, size + 2 * PAD)
    rows = torch.arange(size)[None, :] + PAD + down[:, None]  # [N, 8]
    columns = torch.arange(size)[None, :] + PAD + right[:, None]
    canvas[torch.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]] = images
    return canvas


def _integers(count: int, below: int, *key: int) -> Tensor:
    return (chance.uniform(*key, torch.arange(count)) * below).long()
