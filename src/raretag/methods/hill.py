r"""Hill loss: negatives that look very much like positives are probably missing labels, so they are pushed down less.

Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", 2021, arXiv:2112.07368.

Paper and code::

    z      logits                   [B, C]
    m      margin                   on the logit of positives
    g      gamma                    focusing power of positives
    l      peak                     lambda: negatives are no longer pushed at p = 2 l / 3

    L+ = -(1 - p_m)^g log p_m,   p_m = sigmoid(z - m)
    L- = (l - p) p^2,            p = sigmoid(z)

Reduces to:
    none.

Departs from the paper:
    none; labels observed to be absent are negatives like the unknown ones.

Departs from the authors' code:
    the mean over B C instead of the sum over the batch, which works with Adam only (`reduce="sum"` is theirs).
    -log p is softplus(-z); theirs is infinite at z = -100 in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import Logistic, Price
from raretag.core.objective import Objective
from raretag.core.parts import Score
from raretag.core.targets import Completed
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import focused_positive, focused_positive_price
from raretag.objective.shapes import ObservedMargin


class Hill(Method):
    """Negatives that look very much like positives are pushed less.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.Hill(gamma=2.0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.3156
    """

    def __init__(
        self,
        *,
        peak: float = 1.5,
        margin: float = 1.0,
        gamma: float = 2.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        if gamma < 0:
            raise UserError(f"hill.gamma is a focusing power and must be 0 or more, got {gamma}")
        super().__init__(
            Objective(
                complete=completion(unknown),
                shape=ObservedMargin(margin),
                score=HillScore(peak, gamma),
                reduce=reduction(reduce),
            )
        )


class HillScore(Score):
    """Focal for positives, a squared error that flattens towards p = 1 for negatives."""

    def __init__(self, peak: float, gamma: float) -> None:
        super().__init__()
        self.peak, self.gamma = peak, gamma

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return focused_positive(s, self.gamma)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        p = torch.sigmoid(s)
        return (self.peak - p) * p * p

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        p = negative.p
        down = Price((self.peak - p) * p * p, (2.0 * self.peak - 3.0 * p) * p * p * negative.q)
        return focused_positive_price(positive, self.gamma), down
