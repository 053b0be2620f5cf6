"""What the engine and the user's own loop see of a method."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from raretag.core.context import Context
from raretag.core.objective import NOWHERE, Objective
from raretag.core.targets import Targets


class Method(nn.Module):
    """A row of the table: an objective, and how the paper wants it used.

    In a loop of your own: `method.loss(...)` each step, `method.end_epoch(context)` after each epoch, and
    `method.state_dict()` in the checkpoint. In training mode `loss` also lets the method learn from the batch.
    """

    sampler: str = "uniform"  # how the paper draws items, unless the user says otherwise

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

    def loss(self, logits: Tensor, targets: Targets, context: Context = NOWHERE) -> Tensor:
        value: Tensor = self.objective(logits, targets, context)
        if self.training:
            with torch.no_grad():
                self.observe(logits.detach(), targets, context)
        return value

    forward = loss

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        self.objective.observe(logits, targets, context)

    def end_epoch(self, context: Context) -> None:
        with torch.no_grad():
            self.objective.end_epoch(context)

    def vital_signs(self) -> dict[str, float]:
        return self.objective.vital_signs()
