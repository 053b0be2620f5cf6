"""An item as a person would look at it: a small picture or its text."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps

from raretag.core.errors import UserError
from raretag.data.dataset import Inputs, Joined, Selected
from raretag.data.inputs.images import TROUBLE, Images, in_colour, opened
from raretag.data.inputs.text import SideBySide, Texts
from raretag.data.inputs.tokens import TokenInputs

SIDE = 160  # pixels of the longer side
MOST_LETTERS = 600


@dataclass(frozen=True)
class Preview:
    image: bytes | None = None  # JPEG
    text: str | None = None


def preview(inputs: Inputs, row: int, *, side: int = SIDE, letters: int = MOST_LETTERS) -> Preview:
    """Empty for items that are only numbers, and for images that have gone."""
    inputs, row = original(inputs, row)
    if isinstance(inputs, Images):
        return Preview(image=_photograph(inputs.paths[row], side))
    if isinstance(inputs, Texts | SideBySide | TokenInputs):
        return Preview(text=inputs.texts[row][:letters])
    try:
        values = inputs.batch(torch.tensor([row]))[0].float()
    except (UserError, OSError):
        return Preview()
    return Preview(image=_pixels(values, side)) if values.dim() == 3 and values.shape[0] in (1, 3) else Preview()


def original(inputs: Inputs, row: int) -> tuple[Inputs, int]:
    """The inputs that a selection was made from, and the row there."""
    while isinstance(inputs, (Selected, Joined)):
        if isinstance(inputs, Selected):
            row, inputs = int(inputs.rows[row]), inputs.inputs
        else:
            late = row >= len(inputs.first)
            inputs, row = (inputs.second, row - len(inputs.first)) if late else (inputs.first, row)
    return inputs, row


def _photograph(path: str, side: int) -> bytes | None:
    try:
        with opened(path) as image:
            image.draft("RGB", (2 * side, 2 * side))
            upright = in_colour(ImageOps.exif_transpose(image))
    except TROUBLE:
        return None
    upright.thumbnail((side, side))
    return _jpeg(upright)


def _pixels(values: torch.Tensor, side: int) -> bytes | None:
    """Numbers [1 or 3, H, W] as an image, from the lowest, black, to the highest, white."""
    if not values.numel() or not values.isfinite().all():
        return None
    low, high = values.min(), values.max()
    grey = ((values - low) / (high - low).clamp(min=1e-12) * 255).round().byte().permute(1, 2, 0).numpy()
    image = Image.fromarray(np.broadcast_to(grey, (*grey.shape[:2], 3)).copy())
    scale = max(1, side // max(image.size))
    image = image.resize((scale * image.width, scale * image.height), Image.Resampling.NEAREST)
    image.thumbnail((side, side))
    return _jpeg(image)


def _jpeg(image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, "JPEG", quality=72, optimize=True)
    return written.getvalue()
