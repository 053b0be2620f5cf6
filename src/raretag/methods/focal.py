r"""Focal loss.

Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, arXiv:1708.02002; for labels as in Wu et al., ECCV 2020.

Paper and code::

    z     logits                    [B, C]
    g     gamma                     focusing power
    b     balance                   one factor for both sides (DB: "a balance parameter of 2")
    a     alpha                     Lin's alpha_t: a for positives, 1 - a for negatives; not used unless given

    p_t = p if y else 1 - p,   p = sigmoid(z)
    (4)  L = -b (1 - p_t)^g log p_t
    (5)  L = -alpha_t (1 - p_t)^g log p_t

Reduces to:
    binary_cross_entropy at gamma = 0, balance = 1, unknown = "ignore".

Departs from the paper:
    alpha is off by default, as in the multi-label papers that compare with this loss.

Departs from the authors' code:
    none; `detach_focus=True` gives the gradient of the variant in the ASL repository (no gradient through the power).
"""

from __future__ import annotations

from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective import scores
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.weights import SideWeights


class Focal(Method):
    """Cross entropy that counts less where the prediction is already right.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.Focal(gamma=2.0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.5801
    """

    def __init__(
        self,
        *,
        gamma: float = 2.0,
        balance: float = 1.0,
        alpha: float | None = None,
        detach_focus: bool = False,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        if alpha is not None and not 0 < alpha < 1:
            raise UserError(f"focal.alpha is the weight of positives and must lie in (0, 1), got {alpha}")
        super().__init__(
            Objective(
                complete=completion(unknown),
                weigh=None if alpha is None else SideWeights(alpha, 1.0 - alpha),
                score=scores.Focal(gamma, balance, detach_focus=detach_focus),
                reduce=reduction(reduce),
            )
        )
