"""A line and a kernel of kept items, added up: what the solver `blend` fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Blended(nn.Module):
    """z = W x + b + V k(x), with k_i(x) = exp(-|(x - centre) / unit - landmark_i|).

    The landmarks are training items, less the centre and in units. Without any, the head is a line and costs no
    more than one.
    """

    landmarks: Tensor  # [M, D]
    share: Tensor  # V [C, M]
    centre: Tensor  # [D]
    unit: Tensor  # []

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.classify = nn.Linear(features, labels)
        self.register_buffer("landmarks", torch.zeros(0, features))
        self.register_buffer("share", torch.zeros(labels, 0))
        self.register_buffer("centre", torch.zeros(features))
        self.register_buffer("unit", torch.ones(()))

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(features)
        if not len(self.landmarks):
            return logits
        rows = (features - self.centre) / self.unit
        squared = (rows**2).sum(1, keepdim=True) + (self.landmarks**2).sum(1) - 2 * rows @ self.landmarks.T
        return logits + torch.exp(-squared.clamp(min=0).sqrt()) @ self.share.T

    @torch.no_grad()
    def fill(self, weight: Tensor, bias: Tensor) -> None:
        """The line alone."""
        self.classify.weight.copy_(weight)
        self.classify.bias.copy_(bias)
        self.resize_for({})

    @torch.no_grad()
    def keep(self, items: Tensor, centre: Tensor, unit: float, share: Tensor) -> None:
        """Items [M, D] as landmarks, and their shares [C, M]."""
        centre = centre.to(items)
        self.landmarks, self.share = ((items - centre) / unit).to(self.landmarks), share.to(self.share).contiguous()
        self.centre.copy_(centre)
        self.unit.fill_(unit)

    def resize_for(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Room for as many landmarks as stored tensors of these shapes have; none if they are not among them."""
        rows, features = len(self.landmarks), self.landmarks.shape[1]
        stored = shapes.get("landmarks", (0, features))
        if len(stored) == 2 and stored[1] == features and stored[0] != rows:
            self.landmarks = self.landmarks.new_zeros(stored)
            self.share = self.share.new_zeros(len(self.share), stored[0])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        stored = state_dict.get(prefix + "landmarks")
        self.resize_for({} if stored is None else {"landmarks": tuple(stored.shape)})
        super()._load_from_state_dict(state_dict, prefix, *rest)
