"""A narrow neck before the linear classifier: Linear, BatchNorm, Dropout, Linear.

Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets", ECCV 2020,
arXiv:2007.09654. The paper names the narrow layer, the authors' code has the normalisation and dropout too.
"""

from __future__ import annotations

from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.models.layers.batch_norm import BatchNorm1d
from raretag.models.layers.dropout import Dropout


class NeckLinear(nn.Module):
    def __init__(self, features: int, labels: int, *, width: int = 256, dropout: float = 0.5) -> None:
        super().__init__()
        if width < 1 or not 0 <= dropout < 1:
            raise UserError(f"neck_linear needs width >= 1 and dropout in [0, 1), got width={width}, dropout={dropout}")
        self.neck = nn.Sequential(nn.Linear(features, width), BatchNorm1d(width), Dropout(dropout))
        self.classify = nn.Linear(width, labels)
        nn.init.normal_(self.classify.weight, std=0.01)
        nn.init.zeros_(self.classify.bias)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(self.neck(features))
        return logits
