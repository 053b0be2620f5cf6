"""An item as a person would look at it: a small picture or its text."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps

from raretag.core.errors import UserError
from raretag.data.dataset import Inputs, Selected
from raretag.data.inputs.images import TROUBLE, Images, in_colour, opened
from raretag.data.inputs.text import Texts

SIDE = 160  # pixels of the longer side
MOST_LETTERS = 600


@dataclass(frozen=True)
class Preview:
    image: bytes | None = None  # JPEG
    text: str | None = None


def preview(inputs: Inputs, row: int) -> Preview:
    """Empty for items that are only numbers, and for images that have gone."""
    while isinstance(inputs, Selected):
        row, inputs = int(inputs.rows[row]), inputs.inputs
    if isinstance(inputs, Images):
        return Preview(image=_photograph(inputs.paths[row]))
    if isinstance(inputs, Texts):
        return Preview(text=inputs.texts[row][:MOST_LETTERS])
    try:
        values = inputs.batch(torch.tensor([row]))[0].float()
    except (UserError, OSError):
        return Preview()
    return Preview(image=_pixels(values)) if values.dim() == 3 and values.shape[0] in (1, 3) else Preview()


def _photograph(path: str) -> bytes | None:
    try:
        with opened(path) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))
            upright = in_colour(ImageOps.exif_transpose(image))
    except TROUBLE:
        return None
    upright.thumbnail((SIDE, SIDE))
    return _jpeg(upright)


def _pixels(values: torch.Tensor) -> bytes | None:
    """Numbers [1 or 3, H, W] as an image, from the lowest, black, to the highest, white."""
    if not values.numel() or not values.isfinite().all():
        return None
    low, high = values.min(), values.max()
    grey = ((values - low) / (high - low).clamp(min=1e-12) * 255).round().byte().permute(1, 2, 0).numpy()
    image = Image.fromarray(np.broadcast_to(grey, (*grey.shape[:2], 3)).copy())
    scale = max(1, SIDE // max(image.size))
    image = image.resize((scale * image.width, scale * image.height), Image.Resampling.NEAREST)
    image.thumbnail((SIDE, SIDE))
    return _jpeg(image)


def _jpeg(image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, "JPEG", quality=72, optimize=True)
    return written.getvalue()
