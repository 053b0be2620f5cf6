"""From names and options to one module, for training and for serving: backbone, scaling, head, branches."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from raretag.core import registry
from raretag.core.protocols import Named
from raretag.core.targets import LabelStatistics
from raretag.models.scaling import Rule, scaled


class Single(nn.Module):
    """One backbone, one head. `make_head` gets the number of features."""

    def __init__(self, make_backbone: Callable[[], nn.Module], make_head: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.backbone = make_backbone()
        self.head = make_head(width_of(self.backbone))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.backbone(inputs))
        return logits


def width_of(backbone: nn.Module) -> int:
    """How many features a backbone gives."""
    features = backbone.features
    assert isinstance(features, int)
    return features


def build_backbone(chosen: Named, shape: tuple[int, ...]) -> nn.Module:
    """For inputs of a shape, without the dimension of the batch."""
    backbone: nn.Module = registry.build(
        "models", chosen.name, chosen.options, kind=nn.Module, channels=shape[0], size=math.prod(shape)
    )
    return backbone


def build_model(
    *,
    backbone: Named,
    head: Named,
    branches: Named,
    scaling: Rule,
    shape: tuple[int, ...],
    statistics: LabelStatistics,
) -> nn.Module:
    """From inputs of a shape to logits of the labels that were counted."""
    labels = statistics.labels

    def make_head(features: int) -> nn.Module:
        made: nn.Module = registry.build(
            "models.heads",
            head.name,
            head.options,
            kind=nn.Module,
            features=features,
            labels=labels,
            statistics=statistics,
        )
        return made

    model: nn.Module = registry.build(
        "models.branches",
        branches.name,
        branches.options,
        kind=nn.Module,
        make_backbone=lambda: scaled(scaling, math.prod(shape), build_backbone(backbone, shape)),
        make_head=make_head,
        labels=labels,
        statistics=statistics,
    )
    return model


@torch.no_grad()
def width_after(encoder: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what an encoder makes of inputs of a shape."""
    return tuple(encoder(torch.zeros(1, *shape)).shape[1:])
