"""Images from files, decoded when they are needed: upright, RGB, square, normalised as for ImageNet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.inputs.augment import MEAN, STD, Augment

Fit = Literal["resize", "crop"]
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # others can start programs, as EPS does
MOST_PIXELS = 64_000_000  # a small file can claim to be a huge image and fill the memory
MARGIN = 1.15  # training images are read larger than needed, so that crops stay sharp

_verified: dict[tuple[str, int, int], str | None] = {}  # (path, bytes, time of change) -> what is wrong, if anything


class Images:
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

    def __len__(self) -> int:
        return len(self.paths)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        if epoch is None or self.augment is None:
            return normalised(self._read(rows, self.size))
        return normalised(self.augment(self._read(rows, round(self.size * MARGIN)), rows, epoch, self.size))

    def _read(self, rows: Tensor, side: int) -> Tensor:
        raw = np.stack([self.pixels(row, side) for row in rows.tolist()])
        return torch.from_numpy(raw).permute(0, 3, 1, 2).float() / 255  # [B, 3, L, L]

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:
        """One image as [side, side, 3]."""
        return square(self.paths[row], side, self.fit)

    def describe(self) -> dict[str, Any]:
        return {"kind": "images", "size": self.size, "fit": self.fit, "mean": list(MEAN), "std": list(STD)}


def normalised(images: Tensor) -> Tensor:
    """From [0, 1] to the mean 0 and deviation 1 of ImageNet's pixels; [B, 3, H, W]."""
    return (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def square(path: str, side: int, fit: Fit = "resize") -> NDArray[np.uint8]:
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


def opened(path: str) -> Image.Image:
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
