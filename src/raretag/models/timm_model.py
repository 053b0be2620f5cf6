"""Any image model of timm, by its name: `--set model.name=timm_model --set model.architecture=resnet50`.

Wightman, "PyTorch Image Models", https://github.com/huggingface/pytorch-image-models.

The images are normalised as the model's weights want it. Weights are downloaded when they are first used.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.models.layers.batch_norm import over_processes
from raretag.models.layers.frozen import freeze
from raretag.models.layers.pixels import brightness


class TimmModel(nn.Module):
    """Images [B, channels, H, W], normalised as for ImageNet, to features [B, D]. Frozen, it is a fixed function."""

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
