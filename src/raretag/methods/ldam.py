r"""Label-distribution-aware margins (LDAM), with deferred re-weighting (DRW).

Cao et al., "Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss", NeurIPS 2019, arXiv:1906.07413;
for several labels as in Wu et al., ECCV 2020, appendix A.2.

Paper and code::

    n_c    counts                   positives of label c in the data set
    m_c    margin                   K / n_c^{1/4}, the largest is `max_margin`
    s      scale                    1 for logits; 30 for cosines of a normalised classifier

    form  sigmoid  L = BCE(s (z - m_c) if y = 1 else s z, y)
          softmax  L = -log softmax(s (z - m y))_c at the label c of the row: the original, for one label each

    DRW: from the share `reweigh_from` of the epochs on, L times w_c of class_balanced, mode "normalised"

Reduces to:
    binary_cross_entropy at max_margin = 0, unknown = "ignore".

Departs from the paper:
    Wu et al. speak of a "class-level margin" and publish no code: the sigmoid form is a reading, `margin_on="all"` (a
    shift of all logits of a label) another. A label without positives counts as if it had one.

Departs from the authors' code:
    s = 1 by default. They re-weight from epoch 160 of 200 (`reweigh_from=0.8`) and divide by the weights of the batch.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import barrier, log_softmax
from raretag.core.objective import Objective
from raretag.core.parts import Score, Shape, Weigh
from raretag.core.targets import Completed, LabelStatistics
from raretag.objective import weights
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class Ldam(Method):
    """Positives of rare labels must be predicted with a larger margin.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.Ldam(statistics, max_margin=0.5)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    1.0157
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        form: Literal["sigmoid", "softmax"] = "sigmoid",
        max_margin: float = 0.5,
        scale: float = 1.0,
        margin_on: Literal["positives", "all"] = "positives",
        reweigh_from: float | None = None,
        beta: float = 0.9999,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        if scale <= 0 or max_margin < 0:
            raise UserError(f"ldam: scale must be above 0 and max_margin 0 or more, got {scale} and {max_margin}")
        n = weights.counts(statistics)
        super().__init__(
            Objective(
                complete=completion(unknown),
                shape=RareMargin(max_margin * (n.min() / n) ** 0.25, scale, form, margin_on),
                weigh=None if reweigh_from is None else Deferred(weights.class_balanced(n, beta), reweigh_from),
                score=CrossEntropy() if form == "sigmoid" else LogProbability(),
                reduce=reduction(reduce),
            )
        )


class RareMargin(Shape):
    """s (z - m) and s z; in the softmax form their log-probabilities among the labels of the row that count."""

    margin: Tensor

    def __init__(self, margin: Tensor, scale: float, form: str, margin_on: str) -> None:
        super().__init__()
        self.scale, self.form, self.margin_on = scale, form, margin_on
        self.register_buffer("margin", margin)  # [C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> tuple[Tensor, Tensor]:
        margin = barrier(context.of(self.margin).to(logits.dtype))
        if self.form == "sigmoid":
            reduced = self.scale * (logits - margin)
            return reduced, reduced if self.margin_on == "all" else self.scale * logits
        reduced = self.scale * (logits - margin * (1.0 if self.margin_on == "all" else completed.value))
        among = reduced.masked_fill(~completed.counted, torch.finfo(reduced.dtype).min)
        log_p = log_softmax(among, context)
        return log_p, log_p

    def slopes(self) -> tuple[float, float] | None:
        return (self.scale, self.scale) if self.form == "sigmoid" else None


class LogProbability(Score):
    """-log p of the label that is there; the others have their share in its softmax."""

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return -s

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return torch.zeros_like(s)


class Deferred(Weigh):
    """No weights until a share of the epochs is over."""

    weight: Tensor

    def __init__(self, weight: Tensor, share: float) -> None:
        super().__init__()
        self.share, self.scheduled = share, True
        self.register_buffer("weight", weight)  # [C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        weight = barrier(context.of(self.weight).to(logits.dtype))
        return weight if context.has_begun(self.share) else torch.ones_like(weight)
