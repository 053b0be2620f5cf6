"""A perceptron for feature vectors: Linear, ReLU, Dropout, as many times as there are widths."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.models.layers import Dropout

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Mlp(nn.Module):
    """Feature vectors [B, D] (larger inputs are flattened) to features [B, width]."""

    def __init__(self, size: int, *, width: int = 256, layers: int = 1, dropout: float = 0.5) -> None:
        super().__init__()
        if layers < 0 or not 0 <= dropout < 1:
            raise UserError(f"mlp needs layers >= 0 and dropout in [0, 1), got layers={layers}, dropout={dropout}")
        self.features = width if layers else size
        sizes = [size] + [width] * layers
        self.layers = nn.Sequential(
            nn.Flatten(),
            *(
                nn.Sequential(nn.Linear(before, after), nn.ReLU(inplace=True), Dropout(dropout))
                for before, after in pairwise(sizes)
            ),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        features: Tensor = self.layers(inputs)
        return features

    def sparse(self, x: csr_array) -> csr_array | None:
        """Without layers the features are the inputs."""
        return x if len(self.layers) == 1 else None
