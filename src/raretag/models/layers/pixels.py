"""Photographs come normalised with ImageNet's mean and deviation; pretrained networks want their own."""

from __future__ import annotations

from torch import Tensor

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def brightness(images: Tensor) -> Tensor:
    """[B, 3, H, W] in [0, 1] again. Images with another number of channels were not normalised and stay as they are."""
    if images.shape[1] != len(MEAN):
        return images
    return images * images.new_tensor(STD)[:, None, None] + images.new_tensor(MEAN)[:, None, None]
