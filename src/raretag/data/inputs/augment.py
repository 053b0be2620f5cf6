"""Random changes of training images: resized crop, flip, colour, cutout.

Every number is drawn for (seed, item, epoch), so that an image looks the same in whatever batch, order or process.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from raretag.core import chance
from raretag.core.errors import UserError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, in [0, 1]
_GREY = (0.299, 0.587, 0.114)  # how bright the eye sees red, green and blue (ITU-R BT.601)
_PURPOSE = int.from_bytes(b"augment", "big")


@dataclass(frozen=True)
class Augment:
    """Strengths; 0 (or an area of 1) switches a change off."""

    seed: int = 0
    smallest_area: float = 0.25  # a crop has between this share of the image and all of it
    stretch: float = 4 / 3  # its width over its height lies between 1 / stretch and stretch
    flip: float = 0.5  # probability of a mirror image
    colour: float = 0.3  # brightness, contrast and saturation change by a factor in 1 - colour .. 1 + colour
    cutout: float = 0.0  # side of a square that is blotted out, as a share of the image's

    def __post_init__(self) -> None:
        if not 0 < self.smallest_area <= 1 or self.stretch < 1 or not 0 <= self.flip <= 1:
            raise UserError("smallest_area lies above 0 and up to 1, stretch is 1 or more, flip lies between 0 and 1")
        if not 0 <= self.colour < 1 or not 0 <= self.cutout <= 1:
            raise UserError(f"colour is {self.colour} and cutout {self.cutout}; expected numbers from 0 to 1")

    def __call__(self, images: Tensor, items: Tensor, epoch: int, size: int | None = None) -> Tensor:
        """Images [B, K, H, W] in [0, 1] to [B, K, size, size]."""
        draws = chance.uniform(_PURPOSE, self.seed, items[:, None], epoch, torch.arange(10)).float()  # [B, 10]
        images = self.crop(images, draws[:, :5], size or images.shape[-1])
        if self.colour and images.shape[1] == 3:
            images = self.distort(images, draws[:, 5:8])
        return self.blot(images, draws[:, 8:]) if self.cutout else images

    def crop(self, images: Tensor, draws: Tensor, size: int) -> Tensor:
        """A part of each image at full size, half of them mirrored: one bilinear look-up."""
        area = self.smallest_area + (1 - self.smallest_area) * draws[:, 0]
        ratio = self.stretch ** (2 * draws[:, 1] - 1)
        width, height = (area * ratio).sqrt().clamp(max=1.0), (area / ratio).sqrt().clamp(max=1.0)  # of a side of 1
        mirror = torch.where(draws[:, 4] < self.flip, -1.0, 1.0)
        theta = torch.zeros(len(images), 2, 3)  # from output to input coordinates, both from -1 to 1
        theta[:, 0, 0], theta[:, 1, 1] = width * mirror, height
        theta[:, 0, 2] = (1 - width) * (2 * draws[:, 2] - 1)
        theta[:, 1, 2] = (1 - height) * (2 * draws[:, 3] - 1)
        grid = F.affine_grid(theta, [len(images), images.shape[1], size, size], align_corners=False)
        return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)

    def distort(self, images: Tensor, draws: Tensor) -> Tensor:
        """Brightness b, contrast c around the mean grey, saturation s around each pixel's grey.

        All three are linear, so they are one matrix for the pixels x of an image:
        c b (s x + (1 - s) g(x)) + (1 - c) b mean g, with g(x) the grey of a pixel.
        """
        brightness, contrast, saturation = (1 + self.colour * (2 * draws - 1)).T[:, :, None, None]  # [B, 1, 1] each
        weights = torch.tensor(_GREY)
        to_grey = weights.expand(3, 3)  # every row gives the grey
        matrix = contrast * brightness * (saturation * torch.eye(3) + (1 - saturation) * to_grey)  # [B, 3, 3]
        # float64, so that the order of adding, which the size of the batch may change, is rounded away
        mean_grey = (images.mean((2, 3), dtype=torch.float64) * weights).sum(1).float()[:, None, None]
        flat = torch.baddbmm((1 - contrast) * brightness * mean_grey, matrix, images.flatten(2))
        return flat.clamp_(0, 1).view_as(images)

    def blot(self, images: Tensor, draws: Tensor) -> Tensor:
        """A square of the mean colour somewhere in each image, partly outside perhaps."""
        height, width = images.shape[-2:]
        down = (torch.arange(height) + 0.5)[None, :] / height - draws[:, :1]  # [B, H]
        right = (torch.arange(width) + 0.5)[None, :] / width - draws[:, 1:2]
        hit = (down.abs() <= self.cutout / 2)[:, None, :, None] & (right.abs() <= self.cutout / 2)[:, None, None, :]
        colour = torch.tensor(MEAN if images.shape[1] == 3 else (0.0,))[:, None, None]
        return torch.where(hit, colour, images)
