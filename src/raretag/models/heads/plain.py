"""Heads of one or two layers: features [B, D], or maps of them, to logits [B, C]."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from raretag.core.errors import UserError
from raretag.models.layers import BatchNorm1d, Dropout


class Linear(nn.Module):
    """One linear classifier for each label."""

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.classify = nn.Linear(features, labels)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(features)
        return logits


class Scaled(nn.Module):
    """A linear classifier with one more scale for each label: z = (W x + b) s.

    Kang et al., "Decoupling Representation and Classifier for Long-Tailed Recognition" (LWS), ICLR 2020,
    arXiv:1910.09217.
    """

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.classify = nn.Linear(features, labels)
        self.scale = nn.Parameter(torch.ones(labels))

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classify(features) * self.scale
        return logits


class Boosted(nn.Module):
    """A linear classifier of each place of the maps, whose positive evidence counts more; the mean over places.

    Kim et al., "Bridging the Gap between Model Explanations in Partially Annotated Multi-label Classification"
    (BoostLU), CVPR 2023, arXiv:2304.01804.

        z_c = mean over places of boost(w_c . x + b_c),   boost(a) = alpha a for a > 0, else a

    A model that was taught that missing labels are absent still has a map of the right shape for them, only fainter.
    For maps [B, D, h, w]: `model.name=small_resnet`, `model.maps=true`. Features [B, D] are maps of one place.
    """

    def __init__(self, features: int, labels: int, *, alpha: float = 5.0) -> None:
        super().__init__()
        if alpha <= 0:
            raise UserError(f"boosted.alpha multiplies positive evidence and must be above 0, got {alpha}")
        self.alpha = alpha
        self.classify = nn.Linear(features, labels)

    def forward(self, features: Tensor) -> Tensor:
        places = features.flatten(2).transpose(1, 2) if features.dim() == 4 else features[:, None]  # [B, hw, D]
        evidence = self.classify(places)
        return torch.where(evidence > 0, self.alpha * evidence, evidence).mean(1)


class Cosine(nn.Module):
    """A classifier by angle: the length of a feature vector and of a label's weights do not matter.

    Liu et al., "Large-Scale Long-Tailed Recognition in an Open World" (OLTR), CVPR 2019; LDAM needs such a head at its
    scale of 30.

        z_c = scale x / |x| . w_c / |w_c|;   with squash x / (1 + |x|) stands for x / |x|
    """

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


class NeckLinear(nn.Module):
    """A narrow neck before the linear classifier: Linear, BatchNorm, Dropout, Linear.

    Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets", ECCV 2020,
    arXiv:2007.09654. The paper names the narrow layer, the authors' code has the normalisation and dropout too.
    """

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


class WithSkip(nn.Module):
    """A hidden layer, and the features themselves beside it: z = W x + V relu(U x + u) + b."""

    def __init__(self, features: int, labels: int, *, width: int = 2048) -> None:
        super().__init__()
        if width < 1:
            raise UserError(f"with_skip.width is the number of hidden units and must be 1 or more, got {width}")
        self.skip = nn.Linear(features, labels, bias=False)
        self.hidden = nn.Linear(features, width)
        self.classify = nn.Linear(width, labels)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.skip(features) + self.classify(torch.relu(self.hidden(features)))
        return logits
