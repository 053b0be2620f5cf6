"""Any image model of timm, by its name: `--set encoder.name=timm_model --set encoder.architecture=resnet50`.

Wightman, "PyTorch Image Models", https://github.com/huggingface/pytorch-image-models.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.models.pretrained import Pool, Pretrained


class TimmModel(Pretrained):
    """Any image model of timm, by its name: `--set model.name=timm_model --set model.architecture=resnet50`.

    Wightman, "PyTorch Image Models", https://github.com/huggingface/pytorch-image-models.

    Images are normalised as the model's weights want it, and brought to its size if it takes no other; with `side`, a
    vision transformer is made for that size instead. Weights that are not on this disk are fetched only if `download`
    says so.

    Images [B, channels, H, W], normalised as for ImageNet, to features [B, D]. `pool: mean_and_max` is for networks
    whose last layer is a map of positions; others pool as they were trained to. Frozen, it is a fixed function.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        channels: int,
        *,
        architecture: str,
        side: int | None = None,
        pool: Pool = "mean",
        flip: bool = False,
        pretrained: bool = True,
        download: bool = False,
        frozen: bool = False,
    ) -> None:
        timm = needed()
        if not timm.is_model(architecture):
            near = [*get_close_matches(architecture, timm.list_models(), 3), *timm.list_models(f"*{architecture}*")]
            known = ", ".join(dict.fromkeys(near[:5])) or "see timm.list_models()"
            raise UserError(f"timm has no model '{architecture}'; perhaps: {known}")
        about = about_weights(architecture)
        overlay = {}
        if pretrained and not download:
            file = weights_file(about)
            if file is None:
                raise UserError(
                    f"the weights of timm's '{architecture}' are not on this disk; --download, or the option "
                    "download=true, allows fetching them from the Hugging Face Hub"
                )
            overlay = {"pretrained_cfg_overlay": {"file": str(file)}}
        more = {}
        if about.get("fixed_input_size"):
            own = self.own_size({"architecture": architecture})
            side = own if side is None else side
            more = {} if side == own else {"img_size": side}  # timm brings what it knows of positions to that size
        super().__init__(side=side, pool=pool, flip=flip, frozen=frozen)
        self.title = f"timm's {architecture}"
        with told(self.title, side):
            network = timm.create_model(
                architecture, pretrained=pretrained, in_chans=channels, num_classes=0, **overlay, **more
            )
        self.licence = str(about.get("license") or "not stated")
        wanted = timm.data.resolve_model_data_config(network)
        for name in ("mean", "std"):  # one number for all channels where the model was made for another number of them
            values = torch.tensor(wanted[name])
            values = values if len(values) == channels else values.mean()[None]
            self.register_buffer(name, values[:, None, None], persistent=False)
        self.use(network.to(memory_format=torch.channels_last))  # convolutions: up to a third faster on CPUs
        with told(self.title, side):
            self.features = self.width(channels, side or int(wanted["input_size"][-1]))

    @torch.no_grad()
    def width(self, channels: int, side: int) -> int:
        """From a forward pass: `num_features` of some families is not the width of what they give."""
        self.eval()
        found = self(torch.zeros(1, channels, side, side)).shape
        self.train()
        if len(found) != 2:
            raise UserError(f"{self.title} gives features of shape {list(found[1:])}; expected one row per image")
        return int(found[1])

    @staticmethod
    def own_size(options: dict[str, Any]) -> int | None:
        """The side of the images that the weights were tested with, as timm knows it."""
        about = about_weights(str(options.get("architecture")))
        size = (about.get("fixed_input_size") and about.get("input_size")) or about.get("test_input_size")
        size = size or about.get("input_size")
        return None if size is None else int(size[-1])

    @staticmethod
    def is_here(options: dict[str, Any]) -> bool:
        """Whether timm and the weights are on this disk."""
        if find_spec("timm") is None:
            return False
        try:
            return weights_file(about_weights(str(options.get("architecture")))) is not None
        except UserError:
            return False

    def pooled(self, pixels: Tensor) -> Tensor:
        network: Any = self.network
        if self.pool == "mean":
            features: Tensor = network(pixels)
            return features
        maps = network.forward_features(pixels)
        if maps.ndim != 4 or maps.shape[1] < maps.shape[3]:
            raise UserError(f"{self.title} has no map of positions, so its pool must be 'mean'")
        return torch.cat([network.forward_head(maps), maps.amax((2, 3))], 1)


@contextlib.contextmanager
def told(title: str, side: int | None) -> Iterator[None]:
    """What timm and the networks in it raise, in one line: an image size that does not fit, weights out of reach."""
    try:
        yield
    except UserError:
        raise
    except (AssertionError, OSError, RuntimeError, TypeError, ValueError) as error:
        of_size = "" if side is None else f" for images of {side} x {side} pixels"
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{title} cannot be used{of_size}: {reason}") from None


def needed() -> Any:
    try:
        import timm
    except ImportError as error:
        missing = "which is not here" if find_spec("timm") is None else f"which cannot be imported ({error})"
        raise UserError(f"timm_model needs the package 'timm', {missing}: pip install 'raretag[timm]'") from None
    except RuntimeError as error:  # "operator torchvision::nms does not exist"
        raise UserError(
            f"timm_model needs the package 'timm', which cannot be imported ({str(error).splitlines()[0]}): its "
            "torchvision was built for another torch; install both from one place, as PyTorch's website says"
        ) from None
    return timm


def about_weights(architecture: str) -> dict[str, Any]:
    """What timm says of an architecture's weights: sizes, licence, where they are; empty if it knows none."""
    try:
        found = needed().get_pretrained_cfg(architecture, allow_unregistered=True)
    except RuntimeError:  # the model is known, and what follows its point is not
        name, _, tag = architecture.partition(".")
        known = ", ".join(needed().list_pretrained(f"{name}.*")) or "none"
        raise UserError(f"timm has no weights '{tag}' of '{name}'; it has: {known}") from None
    return {} if found is None else dict(found.to_dict())


def weights_file(about: dict[str, Any]) -> Path | None:
    """The weights, if an earlier download left them in the cache of the hub."""
    repository, given = about.get("hf_hub_id"), about.get("file")
    if given:
        return Path(given) if Path(given).is_file() else None
    if not repository:
        return None
    from huggingface_hub import try_to_load_from_cache

    for name in (about.get("hf_hub_filename"), "model.safetensors", "pytorch_model.bin"):
        found = try_to_load_from_cache(repository, name) if name else None
        if isinstance(found, str):
            return Path(found)
    return None
