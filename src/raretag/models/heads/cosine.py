"""A classifier by angle: the length of a feature vector and of a label's weights do not matter.

Liu et al., "Large-Scale Long-Tailed Recognition in an Open World" (OLTR), CVPR 2019; LDAM needs such a head at its
scale of 30.

    z_c = scale x / |x| . w_c / |w_c|;   with squash x / (1 + |x|) stands for x / |x|
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from raretag.core.errors import UserError


class Cosine(nn.Module):
    def __init__(self, features: int, labels: int, *, scale: float = 16.0, squash: bool = False) -> None:
        super().__init__()
        if scale <= 0:
            raise UserError(f"cosine.scale is the largest logit and must be above 0, got {scale}")
        self.scale, self.squash = scale, squash
        self.weight = nn.Parameter(torch.empty(labels, features).uniform_(-1, 1) / sqrt(features))

    def forward(self, features: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
        direction = features / (1.0 + length) if self.squash else normalize(features, dim=1)
        return self.scale * direction @ normalize(self.weight, dim=1).T
