"""A network of images or texts that learns on, from where it was frozen, and the frozen one beside it.

Of images, the last layers learn, the first ones and all normalisation stay as they are: on a few thousand photographs
the means of a batch are noise, and edges and textures are the same as anywhere. A fine-tuned network and classifiers of
frozen features make different mistakes, so their scores are added up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from raretag.core.protocols import Named
from raretag.models.pretrained import EfficientnetLite, freeze, multiplies_bfloat16
from raretag.models.text_transformer import SentenceNetwork

PARTS = 2  # of the items; each has a network that did not see it


@dataclass(frozen=True)
class Network:
    """A model's name and its options."""

    name: str
    options: dict[str, Any]


def tuned_network(encoder: Named, *, pretrained: bool = True) -> Network:
    """The network that learns: the encoder itself, or the last of several side by side, without mirror images."""
    first = {"name": encoder.name, **encoder.options}
    if encoder.name == "side_by_side":
        first = dict(encoder.options["of"][-1])
    kept = {key: value for key, value in first.items() if key not in ("name", "frozen", "flip", "download")}
    return Network(str(first["name"]), {**kept, "pretrained": pretrained})


def hold_first(network: nn.Module, learning: float) -> None:
    """All but the last `learning` of the weights, and all normalisation, become buffers, which nothing can wake up."""
    for norm in [module for module in network.modules() if isinstance(module, _BatchNorm)]:
        freeze(norm)
    still = (1 - learning) * sum(parameter.numel() for parameter in network.parameters())
    for module in network.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            still -= parameter.numel()
            if still >= 0:
                delattr(module, name)
                module.register_buffer(name, parameter.detach())


class EndToEnd(nn.Module):
    """Inputs to logits: `backbone` gives features, `head` classifies them. Normalisation stays in evaluation mode."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        if isinstance(backbone, EfficientnetLite):
            backbone.exact = not multiplies_bfloat16()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(images))
        return logits

    def train(self, mode: bool = True) -> EndToEnd:
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        return self

    @property
    def classify(self) -> nn.Linear:
        return [part for part in self.head.modules() if isinstance(part, nn.Linear)][-1]

    @torch.no_grad()
    def leveled(self, logits: Tensor, like: Tensor) -> Tensor:
        """Give the head the mean and deviation that other logits [N, C] of the same items have; its own, after that."""
        classify = self.classify
        scale = like.std(0) / logits.std(0).clamp(min=1e-6)  # [C]
        shift = like.mean(0) - scale * logits.mean(0)
        classify.weight.mul_(scale[:, None].to(classify.weight))
        classify.bias.mul_(scale.to(classify.bias)).add_(shift.to(classify.bias))
        return scale * logits + shift


class FirstColumns(nn.Module):
    """Of rows of vectors and tokens the vectors, which a classifier of frozen features reads."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs[:, : -self.tokens]


class LastColumns(nn.Module):
    """A text encoder that reads the tokens of such rows; its vectors are as long as the square root of their width."""

    def __init__(self, network: SentenceNetwork, tokens: int) -> None:
        super().__init__()
        self.network, self.tokens, self.features = network, tokens, network.width

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.network(inputs[:, -self.tokens :].long())
        return found * math.sqrt(self.features)


class FineTuned(nn.Module):
    """logits = (1 - share) of the classifier of frozen features + share of the mean of the networks that were tuned."""

    share: Tensor

    def __init__(self, encoder: nn.Module, model: nn.Module, tuned: Sequence[EndToEnd], share: float = 0.5) -> None:
        super().__init__()
        self.encoder, self.model = encoder, model
        self.tuned: EndToEnd | nn.ModuleList = nn.ModuleList(tuned)
        self.register_buffer("share", torch.tensor(share))

    def resize_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Folders of version 0.1.0 have one network."""
        if isinstance(self.tuned, nn.ModuleList) and any(name.startswith("tuned.backbone.") for name in shapes):
            self.tuned = cast("EndToEnd", self.tuned[0])

    def forward(self, inputs: Tensor) -> Tensor:
        frozen: Tensor = self.model(self.encoder(inputs).float())
        networks = [self.tuned] if isinstance(self.tuned, EndToEnd) else self.tuned
        tuned = torch.stack([network(inputs) for network in networks]).mean(0)
        return (1 - self.share) * frozen + self.share * tuned
