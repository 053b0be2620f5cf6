"""Images from files, decoded when they are needed: upright, RGB, square, normalised as for ImageNet; and their random
changes in training."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional as F

from raretag.core import chance
from raretag.core.errors import UserError

Fit = Literal["resize", "crop"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, in [0, 1]
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # others can start programs, as EPS does
MOST_PIXELS = 64_000_000  # a small file can claim to be a huge image and fill the memory
_GREY = (0.299, 0.587, 0.114)  # how bright the eye sees red, green and blue (ITU-R BT.601)
END = 2**16  # bytes of an image file's beginning and end that tell it from others
MARGIN = 1.15  # training images are read larger than needed, so that crops stay sharp

_PURPOSE = int.from_bytes(b"augment", "big")
_verified: dict[tuple[str, int, int], str | None] = {}  # (path, bytes, time of change) -> what is wrong, if anything


@dataclass(frozen=True)
class Augment:
    """Random changes of training images: resized crop, flip, colour, cutout. 0 (or an area of 1) switches one off.

    Every number is drawn for (seed, item, epoch), so that an image looks the same in whatever batch, order or process.
    """

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


class Images:
    """Images by their paths; `augment` changes them in training."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        size: int = 128,
        fit: Fit = "resize",
        augment: Augment | None = None,
    ) -> None:
        if size < 1:
            raise UserError(f"size is {size}; expected the side of the images in pixels, such as 128")
        self.paths, self.size, self.fit, self.augment = paths, size, fit, augment
        self.keys: Tensor | None = None  # what random changes of each image depend on; without it, its row

    def __len__(self) -> int:
        return len(self.paths)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        if epoch is None or self.augment is None:
            return normalised(self._read(rows, self.size))
        keys = rows if self.keys is None else self.keys[rows]
        return normalised(self.augment(self._read(rows, round(self.size * MARGIN)), keys, epoch, self.size))

    def _read(self, rows: Tensor, side: int) -> Tensor:
        raw = np.stack([self.pixels(row, side) for row in rows.tolist()])
        return torch.from_numpy(raw).permute(0, 3, 1, 2).float() / 255  # [B, 3, L, L]

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:
        """One image as [side, side, 3]."""
        return square(self.paths[row], side, self.fit)

    def content(self, rows: Tensor) -> Tensor | None:
        """Of each file its size and both its ends, which is all of most photographs."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            found = pool.map(_ends, [self.paths[row] for row in rows.tolist()], chunksize=64)
            return torch.tensor(list(found), dtype=torch.int64)

    def of_size(self, side: int) -> Images:
        """The same images with sides of so many pixels."""
        found = Images(self.paths, size=side, fit=self.fit, augment=self.augment)
        found.keys = self.keys
        return found

    def file_keys(self, rows: Tensor) -> list[bytes]:
        """For each row, a hash of the file's bytes and of how it is read: 16 bytes."""
        how = f"{self.size} {self.fit}".encode()
        return [
            hashlib.blake2b(Path(self.paths[row]).read_bytes(), digest_size=16, key=how).digest()
            for row in rows.tolist()
        ]

    def describe(self) -> dict[str, Any]:
        return {"kind": "images", "size": self.size, "fit": self.fit, "mean": list(MEAN), "std": list(STD)}


def _ends(path: str) -> int:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            digest = hashlib.blake2b(file.read(END) + str(size).encode(), digest_size=8)
            file.seek(max(END, size - END))
            digest.update(file.read(END))
    except OSError as error:
        raise UserError(f"the image '{path}' cannot be read: {_reason(error)}") from None
    return int.from_bytes(digest.digest(), "little", signed=True)


def normalised(images: Tensor) -> Tensor:
    """From [0, 1] to the mean 0 and deviation 1 of ImageNet's pixels; [B, 3, H, W]."""
    return (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def square(path: str | IO[bytes], side: int, fit: Fit = "resize") -> NDArray[np.uint8]:
    """One image as [side, side, 3]: its sides resized, or the middle square of it."""
    try:
        with opened(path) as image:
            image.draft("RGB", (side, side))  # a JPEG can be decoded at a half, a quarter, an eighth
            upright = in_colour(ImageOps.exif_transpose(image))
    except TROUBLE as error:
        raise UserError(f"the image '{path}' cannot be read: {_reason(error)}") from None
    return squared(upright, side, fit)


def squared(image: Image.Image, side: int, fit: Fit) -> NDArray[np.uint8]:
    if fit == "crop":
        return np.asarray(ImageOps.fit(image, (side, side), Image.Resampling.BILINEAR))
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


def opened(path: str | IO[bytes]) -> Image.Image:
    image = Image.open(path, formats=FORMATS)
    if image.width * image.height > MOST_PIXELS:
        image.close()
        raise ValueError(f"{image.width} x {image.height} pixels, more than {MOST_PIXELS // 10**6} million")
    return image


def in_colour(image: Image.Image) -> Image.Image:
    """RGB from whatever it was; what is transparent becomes white, 16 bits become 8."""
    if image.mode.startswith("I"):
        return Image.fromarray((np.asarray(image).astype(np.float64) / 257).clip(0, 255).astype(np.uint8)).convert(
            "RGB"
        )
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
    return image.convert("RGB")


def verify(paths: Sequence[str], workers: int | None = None) -> dict[int, str]:
    """Decode every image once, before hours of training; row -> what is wrong with it.

    Threads will do: Pillow lets others run while it decodes.
    """
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        found = list(pool.map(_trouble, paths, chunksize=64))
    return {row: trouble for row, trouble in enumerate(found) if trouble is not None}


def _trouble(path: str) -> str | None:
    try:
        state = os.stat(path)
    except (OSError, ValueError) as error:
        return _reason(error)
    key = (path, state.st_size, state.st_mtime_ns)
    if key not in _verified:
        _verified[key] = _decoded(path)
    return _verified[key]


def _decoded(path: str) -> str | None:
    try:
        with opened(path) as image:
            image.draft("RGB", (64, 64))  # all bytes are still read, at a fraction of the work
            image.load()
    except TROUBLE as error:
        return _reason(error)
    return None


# Decoders of broken files fail in all these ways; the warning is Pillow's about huge images, where warnings are errors.
TROUBLE: tuple[type[Exception], ...] = (
    OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, OverflowError, EOFError, MemoryError,
    Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnidentifiedImageError):
        return f"not one of {', '.join(FORMATS)}"
    return " ".join(str(error).split()) or type(error).__name__
