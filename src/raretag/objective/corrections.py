"""What an unknown label is taken to be, from what the model says in this step: no gradient, no memory."""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.parts import Complete
from raretag.core.targets import Completed, Targets


class LikelyIsPositive(Complete):
    """From `start_epoch` on, t = 1 for an unknown label with p > tau and 0 for the others; before it, as `before` says.

    Beware of a low tau and of losses that let p start high (focal, asymmetric): then everything becomes positive.
    """

    def __init__(self, tau: float, start_epoch: int, before: Complete) -> None:
        super().__init__()
        if not 0 < tau <= 1:
            raise UserError(f"tau is a probability above which an unknown label counts as positive, got {tau}")
        self.tau, self.start_epoch, self.before = tau, start_epoch, before

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        if context.epoch < self.start_epoch:
            completed: Completed = self.before(logits, targets, context)
            return completed
        likely = targets.unknown & (torch.sigmoid(logits.detach()) > self.tau)
        value = torch.where(likely, 1.0, targets.positive)
        return Completed(value, torch.ones_like(targets.observed), targets.observed)
