"""The logits as the two sides of a label see them: margins, shifts, scales."""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.numerics import barrier
from raretag.core.parts import Shape
from raretag.core.targets import Completed, LabelStatistics, either
from raretag.objective.weights import counts


class ObservedMargin(Shape):
    """s+ = z - margin where an annotator gave the label, so that it must be predicted with a reserve; s- = z."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> tuple[Tensor, Tensor]:
        return either(completed.observed, logits - self.margin, logits), logits

    def slopes(self) -> tuple[float, float]:
        return 1.0, 1.0


class NegativeTolerance(Shape):
    """Wu et al. 2020, eq. (7)-(9): s+ = z - nu and s- = lambda (z - nu), lambda = `scale`.

    (9)  b_i = -log(N / n_i - 1),  nu_i = -kappa b_i

    With `shift_over_scale` nu is divided by lambda, as in the authors' code. `positive_scale` stretches s+ as well, the
    variant of section 4.5.
    """

    nu: Tensor

    def __init__(
        self,
        statistics: LabelStatistics,
        scale: float,
        kappa: float,
        *,
        shift_over_scale: bool,
        positive_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if min(scale, positive_scale) <= 0:
            raise UserError(
                "scale and positive_scale multiply logits of negatives and positives and must be above 0, "
                f"got {scale} and {positive_scale}"
            )
        self.scale, self.positive_scale = scale, positive_scale
        nu = kappa * torch.log(max(statistics.items, 2) / counts(statistics) - 1.0)  # [C]
        self.register_buffer("nu", nu / scale if shift_over_scale else nu)

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> tuple[Tensor, Tensor]:
        shifted = logits - barrier(context.of(self.nu).to(logits.dtype))
        return shifted if self.positive_scale == 1.0 else self.positive_scale * shifted, self.scale * shifted

    def slopes(self) -> tuple[float, float]:
        return self.positive_scale, self.scale
