"""Three branches that see the same inputs for frequent, rare and all labels: the head-tail balancer of COMIC.

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels" (COMIC), ICCV 2023, arXiv:2304.10539.

Paper and code::

    f_h, f_t, f_b   frequent, rare, balanced    features of the three branches                              [B, D]
    e_t             moving          moving vectors of f_h and f_t, state                                     [2, D]
    mu              momentum

    (7)   e_t = mu e_{t-1} + mean of the batch's features
    (8)   f_b <- f_b + Attn(f_b, [f_h, f_t]):  additive attention, softmax over the two of v . tanh(W f_b + U f_x)
    (9)   logits of each branch by its normalised classifier
    (10)  of f_h with `head_factor` and of f_t with `tail_factor` times its moving vector added

The outputs are [B, 3, C]: head, tail, balanced. The parts of the ablation that section 4.4 quotes (Table 6): without
the average moving vector (AMV) head_factor = tail_factor = 0; without the normalised classifier (NC)
`head.name=linear`, whose features are moved as they are; without distillation (DL) `method.lambda_h=0`.

Departs from the paper: e_t moves with the features, as in the authors' code; in print it moves with a gradient, but
not of what: moved_by="gradient" takes that of the loss by f_h and f_t, which the next step then uses. Only the
direction of e_t is used, so the missing factor 1 - mu does not matter. The tail's vector counts twice, in print once.
One rate for all branches. share_backbone=True is ours: one backbone gives f_h = f_t = f_b, only the classifiers differ.
Departs from the authors' code: attention learns, and acts in training as in evaluation. All features are trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from raretag.core import processes
from raretag.core.errors import UserError
from raretag.models.assemble import width_of
from raretag.models.heads.normalised import Normalised

BRANCHES = ("head", "tail", "balanced")


class HeadTail(nn.Module):
    moving: Tensor
    gradient: Tensor

    def __init__(
        self,
        make_backbone: Callable[[], nn.Module],
        make_head: Callable[[int], nn.Module],
        *,
        share_backbone: bool = False,
        attention: bool = True,
        momentum: float = 0.9,
        head_factor: float = -1.0,
        tail_factor: float = 2.0,
        moved_by: Literal["features", "gradient"] = "features",
    ) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise UserError(f"head_tail.momentum is the share of the past and must lie in [0, 1), got {momentum}")
        if moved_by == "gradient" and processes.count() > 1:
            raise UserError("head_tail.moved_by=gradient keeps the gradient of its own process only; train with one")
        self.momentum, self.factors = momentum, (head_factor, tail_factor)
        self.moved_by: Literal["features", "gradient"] = moved_by
        own = ("balanced",) if share_backbone else BRANCHES
        self.backbones = nn.ModuleDict({branch: make_backbone() for branch in own})
        size = width_of(self.backbone)
        self.heads = nn.ModuleDict({branch: make_head(size) for branch in BRANCHES})
        self.attention = AdditiveAttention(size) if attention else None
        self.register_buffer("moving", torch.zeros(2, size))
        if moved_by == "gradient":
            self.register_buffer("gradient", torch.zeros(2, size))  # of the last step, by f_h and f_t

    @property
    def backbone(self) -> nn.Module:
        """That of the branch which predicts."""
        return self.backbones["balanced"]

    def forward(self, inputs: Tensor) -> Tensor:
        features = {branch: backbone(inputs) for branch, backbone in self.backbones.items()}
        balanced = features["balanced"]
        frequent, rare = features.get("head", balanced), features.get("tail", balanced)
        if self.training:
            self._move(frequent, rare)
            if self.moved_by == "gradient" and frequent.requires_grad:
                frequent.register_hook(lambda slope: self._keep(0, slope))
                rare.register_hook(lambda slope: self._keep(1, slope))
        if self.attention is not None:
            balanced = balanced + self.attention(balanced, torch.stack([frequent, rare], dim=1))  # (8)
        moving = self.moving.to(balanced.dtype, copy=True)  # a copy: the next step moves it before a late backward
        logits = (
            moved(self.heads["head"], frequent, moving[0], self.factors[0]),  # (10)
            moved(self.heads["tail"], rare, moving[1], self.factors[1]),
            self.heads["balanced"](balanced),  # (9)
        )
        return torch.stack(logits, dim=1)

    @torch.no_grad()
    def _move(self, frequent: Tensor, rare: Tensor) -> None:
        """(7), with the mean over the batch of all processes, or with the gradient of the step before."""
        if self.moved_by == "gradient":
            self.moving.mul_(self.momentum).add_(self.gradient)
            self.gradient.zero_()
            return
        total = processes.total(torch.stack([frequent, rare]).to(self.moving.dtype).sum(1))
        rows = processes.total(total.new_tensor(float(len(frequent))))
        self.moving.mul_(self.momentum).add_(total / rows.clamp(min=1.0))

    @torch.no_grad()
    def _keep(self, branch: int, slope: Tensor) -> None:
        self.gradient[branch] += slope.sum(0)


def moved(head: nn.Module, features: Tensor, moving: Tensor, factor: float) -> Tensor:
    """(10); a classifier that does not normalise gets features that are moved along the vector."""
    if isinstance(head, Normalised):
        logits: Tensor = head(features, moving, factor)
    else:
        common = normalize(moving, dim=0)
        logits = head(features + factor * (features @ common)[:, None] * common)
    return logits


class AdditiveAttention(nn.Module):
    """Bahdanau et al., ICLR 2015: how much of each value [B, V, D] a query [B, D] takes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, query: Tensor, values: Tensor) -> Tensor:
        energy = self.score(torch.tanh(self.query(query)[:, None] + self.key(values)))  # [B, V, 1]
        return (torch.softmax(energy, dim=1) * values).sum(1)
