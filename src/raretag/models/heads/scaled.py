"""A linear classifier with one more scale for each label: z = (W x + b) s.

Kang et al., "Decoupling Representation and Classifier for Long-Tailed Recognition" (LWS), ICLR 2020, arXiv:1910.09217.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scaled(nn.Module):
    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.classify = nn.Linear(features, labels)
        self.scale = nn.Parameter(torch.ones(labels))

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(features) * self.scale
        return logits
