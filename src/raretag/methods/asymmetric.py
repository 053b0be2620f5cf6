r"""Asymmetric loss (ASL).

Ridnik et al., "Asymmetric Loss For Multi-Label Classification", ICCV 2021, arXiv:2009.14119.

Paper and code::

    z        logits                 [B, C]
    p_m      p_m                    shifted probability             [B, C]
    g+, g-   gamma_pos, gamma_neg   focusing powers
    m        margin                 shift of probability

    (5)  p_m = max(p - m, 0),   p = sigmoid(z)
    (7)  L+  = -(1 - p)^{g+} log p
         L-  = -p_m^{g-} log(1 - p_m)

Reduces to:
    focal at gamma_pos = gamma_neg, margin = 0; binary_cross_entropy if these are 0 and unknown = "ignore".

Departs from the paper:
    an unknown label is a negative by default, which is how papers on partial labels compare with this loss.

Departs from the authors' code:
    the mean over B C instead of the sum over the batch, which works with Adam only (`reduce="sum"` is theirs).
    The gradient flows through the focusing powers as in the paper; their training script stops it there
    (`detach_focus=True`), and leaves gradients switched on behind it. No clamp at 1e-8.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective import scores
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction


class Asymmetric(Method):
    """Powers that focus on hard labels, larger for negatives, and a shift of their probability.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.Asymmetric(gamma_neg=4.0, margin=0.05)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.4404
    """

    def __init__(
        self,
        *,
        gamma_pos: float = 0.0,
        gamma_neg: float = 4.0,
        margin: float = 0.05,
        detach_focus: bool = False,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        super().__init__(
            Objective(
                complete=completion(unknown),
                score=scores.Asymmetric(gamma_pos, gamma_neg, margin, detach_focus=detach_focus),
                reduce=reduction(reduce),
            )
        )
