r"""A long-tailed CIFAR from all its images. Cui et al., "Class-Balanced Loss", CVPR 2019, section 5.1.

n_i = int(n_max (1/rho)^(i/(C-1))) images of class i in label order; the test part is untouched. The paper has no
validation part: it is made of training images that the long tail left over, the same number of each class. Of the first
class none are left over, so images that were trained on stand in: results for it are too good there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from raretag.data.building.byte_images import ByteImages
from raretag.data.building.splits import remaining
from raretag.data.reading.cifar import Bytes
from raretag.labels.collection import DataSet, Items
from raretag.labels.longtail import exponential
from raretag.labels.store import LabelStore


def long_tailed(
    name: str,
    read: Callable[[str], tuple[Bytes, Bytes]],
    names: tuple[str, ...],
    ratio: float,
    validation_items: int,
    augment: bool,
    seed: int,
) -> DataSet:
    """`read` gives the images and labels of "train" and of "test"."""
    images, label = read("train")
    test_images, test_label = read("test")
    store, test = _store(label, names, "train"), _store(test_label, names, "test")
    rows = exponential(store, ratio, seed)
    held, short = remaining(label.astype(np.int64), rows, max(1, validation_items // len(names)), seed)
    again = f"; of '{names[short[0]]}' training images stand in" if len(short) == 1 else ""
    again = f"; of {len(short)} classes training images stand in" if len(short) > 1 else again
    remark = f"validation: training images that the long tail left over, balanced{again}; the paper has none"

    def items(pixels: Bytes, labels: LabelStore) -> Items:
        return Items(ByteImages(torch.from_numpy(np.require(pixels, requirements="W")), seed, augment), labels)

    return DataSet(
        name,
        items(images[rows], store.take(rows)),
        items(images[held], store.take(held)),
        items(test_images, test),
        notes={"ratio": ratio, "seed": seed},
        remarks=(remark,),
    )


def _store(label: Bytes, names: tuple[str, ...], part: str) -> LabelStore:
    ids = [f"{part}/{row}" for row in range(len(label))]
    return LabelStore.from_lists([[value] for value in label.tolist()], names=names, ids=ids)
