"""Small images that are kept as bytes and become floats in a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from raretag.core import chance
from raretag.data.inputs.augment import MEAN, STD
from raretag.data.inputs.images import normalised

_PURPOSE = int.from_bytes(b"crop", "big")
_PAD = 4  # pixels


class ByteImages:
    """[N, 3, S, S] uint8. In training each image is moved by up to four pixels and half of them are mirrored.

    The draw belongs to (seed, epoch, row), so it does not depend on the batch or the process.
    """

    def __init__(self, values: Tensor, seed: int = 0, augment: bool = True) -> None:
        self.values, self.seed, self.augment = values, seed, augment

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        images = self.values[rows].float() / 255.0
        return normalised(images if epoch is None or not self.augment else self._changed(images, rows, epoch))

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
