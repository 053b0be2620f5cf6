r"""Class-balanced weights (CB, CB-Focal): each label is weighted by the inverse of its effective number of positives.

Cui et al., "Class-Balanced Loss Based on Effective Number of Samples", CVPR 2019, arXiv:1901.05555; for rows with
several labels as in Wu et al., ECCV 2020, and in PLM eq. (8).

Paper and code::

    n_c    counts                   positives of label c in the data set
    b      beta                     0: no weights; towards 1: inverse frequency

    E_n = (1 - b^n) / (1 - b),   w_c = 1 / E_{n_c}

    mode  by_class        w_c on each label
          normalised      w_c C / sum_j w_j on each label               PLM (8), with the weights of Cui et al.
          normalised_rows mean of those over the positives of the row   Cui et al., on the whole row
          average_w       mean of w_j over the positives j of the row, on the whole row
          average_n       1 / E_n of the mean n_j
          min_n           1 / E_n of the smallest n_j
          inverse_mean_e  1 / mean of E_{n_j}                           Wu et al., appendix A.2

    L = w score(z, y),   score = BCE, or focal with gamma and balance

Reduces to:
    binary_cross_entropy, or focal, at beta = 0.

Departs from the paper:
    a row without positives has the mean of w_c over all labels as its weight. A label without positives counts as if it
    had one.

Departs from the authors' code:
    Wu et al. multiply by 10 (`balance=20` is theirs for focal) and give nan to a row without positives. Their text says
    inverse_mean_e, their code average_w. Cui et al. divide by the number of positives of the batch.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Weigh
from raretag.core.targets import Completed, LabelStatistics
from raretag.objective import scores, weights
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction

RowMode = Literal["normalised_rows", "average_w", "average_n", "min_n", "inverse_mean_e"]
Mode = Literal["by_class", "normalised", "normalised_rows", "average_w", "average_n", "min_n", "inverse_mean_e"]


class ClassBalanced(Method):
    """Cross entropy, or focal, times the inverse effective number of positives.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.ClassBalanced(statistics, beta=0.9)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.1014
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        mode: Mode = "average_w",
        beta: float = 0.99,
        score: scores.ScoreName = "bce",
        gamma: float = 2.0,
        balance: float = 2.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        n = weights.counts(statistics)
        weigh: Weigh
        if mode == "by_class":
            weigh = weights.LabelWeights(1.0 / weights.effective_number(n, beta))
        elif mode == "normalised":
            weigh = weights.LabelWeights(weights.class_balanced(n, beta))
        else:
            weigh = RowWeights(n, beta, mode)
        super().__init__(
            Objective(
                complete=completion(unknown),
                weigh=weigh,
                score=scores.score(score, gamma, balance),
                reduce=reduction(reduce),
            )
        )


class RowWeights(Weigh):
    """One weight for each row, from the labels it has."""

    n: Tensor
    e: Tensor

    def __init__(self, n: Tensor, beta: float, mode: RowMode) -> None:
        super().__init__()
        self.beta, self.mode = beta, mode
        self.register_buffer("n", n)  # [C]
        e = weights.effective_number(n, beta)  # E_n [C]
        self.register_buffer("e", e * (1.0 / e).mean() if mode == "normalised_rows" else e)

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        has = (completed.value > 0.5).to(self.n.dtype)  # [B, C]
        labels = context.total(has.sum(1))
        number = labels.clamp(min=1.0)  # [B]
        n, e = context.of(self.n), context.of(self.e)
        if self.mode in ("average_w", "normalised_rows"):
            weight = context.total(has @ (1.0 / e)) / number
        elif self.mode == "average_n":
            weight = 1.0 / weights.effective_number((context.total(has @ n) / number).clamp(min=1.0), self.beta)
        elif self.mode == "min_n":
            weight = context.total((has / e).amax(1), torch.maximum)  # the rarest label has the largest weight
        else:
            weight = number / context.total(has @ e).clamp(min=1.0)
        weight = torch.where(labels > 0, weight, (1.0 / self.e).mean())
        return weight[:, None].to(logits.dtype)
