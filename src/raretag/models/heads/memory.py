"""A classifier with a memory of what each label looks like (the meta-embedding of OLTR).

Liu et al., "Large-Scale Long-Tailed Recognition in an Open World", CVPR 2019, arXiv:1904.05160.

Paper and code::

    v        features               [B, D]
    M        centroids              one vector for each label, first the mean of its items                   [C, D]
    T_hal    classify               what to recall; also the plain classifier of the first stage
    T_sel    select                 which features to take from memory
    gamma    reach                  how near an item is to what was seen

    v_memory = softmax(T_hal(v)) M,   e = tanh(T_sel(v)),   gamma = 10 / min over labels of |v - M_c|
    z = cosine classifier with squash of gamma (v + e v_memory)

Until `remember` has been called the logits are those of `classify`. Beside them the head gives the squared distances
|v - M_c|^2 [B, C], of which the method makes its attracting and repelling terms.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.models.heads.plain import Cosine

NEAREST = 1e-3  # a distance below this counts as this: an item may sit on a centroid


class Memory(nn.Module):
    filled: Tensor

    def __init__(self, features: int, labels: int, *, scale: float = 16.0, reach: float = 10.0) -> None:
        super().__init__()
        self.reach = reach
        self.classify = nn.Linear(features, labels)
        self.select = nn.Linear(features, features)
        self.cosine = Cosine(features, labels, scale=scale, squash=True)
        self.centroids = nn.Parameter(torch.zeros(labels, features))
        self.register_buffer("filled", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def remember(self, centroids: Tensor) -> None:
        """Fill the memory. From now on it takes part."""
        self.centroids.copy_(centroids)
        self.filled.fill_(True)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        plain = self.classify(features)
        # [B, C]; not by matrix products, which are inexact for near ones
        distance = torch.linalg.vector_norm(features[:, None] - self.centroids, dim=2)
        near = self.reach / distance.amin(1, keepdim=True).clamp(min=NEAREST)
        recalled = torch.softmax(plain, dim=1) @ self.centroids
        deep = self.cosine(near * (features + torch.tanh(self.select(features)) * recalled))
        return torch.where(self.filled, deep, plain), distance.square()  # no branch: it can be exported
