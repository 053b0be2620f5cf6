r"""Weak assume negative (WAN): an unknown label counts as absent, but all absent labels together weigh as much as one.

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, arXiv:2106.09708.

Paper and code::

    z   logits                      [B, C]
    y   targets                     [B, C] positive, negative, unknown
    g   negative_weight             1 / (C - 1) unless given

    t = y if observed else 0
    L = -t log p - g (1 - t) log(1 - p),   p = sigmoid(z)

Reduces to:
    assume_negative at negative_weight = 1.

Departs from the paper:
    labels observed to be absent count as weak negatives too; the paper has none. g is 1 if there is only one label.

Departs from the authors' code:
    -log p is softplus(-z), not -log(p + 1e-5). Observed negatives have a term; in the code theirs is zero.
"""

from __future__ import annotations

from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Weigh
from raretag.core.targets import Completed
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class WeakNegative(Method):
    """An unknown label is a negative of small weight.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.WeakNegative()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.5647
    """

    def __init__(self, *, negative_weight: float | None = None, reduce: Per = "entries") -> None:
        if negative_weight is not None and negative_weight < 0:
            raise UserError(f"weak_negative.negative_weight must be 0 or more, got {negative_weight}")
        super().__init__(
            Objective(
                complete=UnknownIsNegative(),
                weigh=WeakNegatives(negative_weight),
                score=CrossEntropy(),
                reduce=reduction(reduce),
            )
        )


class WeakNegatives(Weigh):
    """1 for positives, g for negatives."""

    def __init__(self, negative_weight: float | None) -> None:
        super().__init__()
        self.negative_weight = negative_weight

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        g = 1.0 / max(context.labels(logits) - 1, 1) if self.negative_weight is None else self.negative_weight
        return g + completed.value * (1.0 - g)
