"""The normalised classifier of COMIC in K groups of features, and its view along or against a moving vector.

Zhang et al., "Learning in Imperfect Environment" (COMIC), ICCV 2023, arXiv:2304.10539.

Paper and code::

    f, w     features, weight       [B, D], [C, D], cut into K groups of D / K features
    N_g      groups                 K
    rho      scale                  the largest logit
    eta      energy                 keeps labels with small weights small
    e_t      moving                 moving vector of the features [D], cut into the same groups

    (9)   z = rho / K sum over groups of f_k / |f_k| . w_k / (|w_k| + eta)
    (10)  the same with f_k / |f_k| + a cos(f_k, e_k) e_k / |e_k| for f_k / |f_k|
          a = -1 (head): without what the features have in common; a > 0 (tail): with more of it
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from raretag.core.errors import UserError


class Normalised(nn.Module):
    def __init__(
        self, features: int, labels: int, *, groups: int = 2, scale: float = 16.0, energy: float = 1 / 32
    ) -> None:
        super().__init__()
        if groups < 1 or features % groups:
            raise UserError(f"normalised.groups is {groups}, but {features} features cannot be cut into as many parts")
        if scale <= 0 or energy < 0:
            raise UserError(f"normalised needs scale > 0 and energy >= 0, got scale={scale}, energy={energy}")
        self.groups, self.scale, self.energy = groups, scale, energy
        self.weight = nn.Parameter(torch.empty(labels, features).uniform_(-1, 1) / sqrt(features))

    def forward(self, features: Tensor, moving: Tensor | None = None, along: float = 0.0) -> Tensor:
        """Logits [B, C] by (9); with a moving vector by (10), a = `along`."""
        direction = normalize(self._grouped(features), dim=2)  # [B, K, D / K]
        if moving is not None:
            common = normalize(self._grouped(moving[None]), dim=2)  # [1, K, D / K]
            direction = direction + along * (direction * common).sum(2, keepdim=True) * common
        weight = self._grouped(self.weight)
        weight = weight / (torch.linalg.vector_norm(weight, dim=2, keepdim=True) + self.energy)
        logits: Tensor = self.scale / self.groups * direction.flatten(1) @ weight.flatten(1).T
        return logits

    def _grouped(self, vectors: Tensor) -> Tensor:
        grouped: Tensor = vectors.unflatten(1, (self.groups, -1))
        return grouped
