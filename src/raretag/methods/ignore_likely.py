r"""Ignore likely: an unknown label is a plain negative, unless the model finds it likely; then it has no term.

No paper. Class-aware sampling (Wu et al., ECCV 2020, arXiv:2007.09654) with the distrust of confident unknown labels
that SPLC (arXiv:2112.07368) and large-loss rejection (Kim et al., CVPR 2022, arXiv:2206.03740) share.

Paper and code::

    z        logits                 [B, C]
    y        targets                [B, C] positive, negative, unknown
    tau      tau                    threshold on p
    warm_up  warm_up                share of the epochs in which every unknown label is a negative

    t = y if observed else 0
    k = 0 if unknown and p > tau and the warm-up is over else 1,   p = sigmoid(z)
    L = k (-t log p - (1 - t) log(1 - p))

Reduces to:
    assume_negative at tau = 1, and in the warm-up.

Departs from the paper:
    none to depart from. Dropping is safer than correcting to 1: a wrong threshold loses terms but adds no wrong ones.

Departs from the authors' code:
    none to depart from.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Keep
from raretag.core.targets import Completed
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class IgnoreLikely(Method):
    """An unknown label is a negative, unless the model predicts it: then it has no term.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.IgnoreLikely(tau=0.4, warm_up=0.0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.2624
    """

    sampler = "class_aware"

    def __init__(self, *, tau: float = 0.4, warm_up: float = 0.1, reduce: Per = "entries") -> None:
        super().__init__(
            Objective(
                complete=UnknownIsNegative(),
                keep=ObservedOrUnlikely(tau, warm_up),
                score=CrossEntropy(),
                reduce=reduction(reduce),
            )
        )


class ObservedOrUnlikely(Keep):
    """What was observed, and of the rest what the model does not believe in."""

    def __init__(self, tau: float, warm_up: float) -> None:
        super().__init__()
        if not 0 <= tau <= 1:
            raise UserError(f"ignore_likely.tau is a probability and must lie in [0, 1], got {tau}")
        if not 0 <= warm_up <= 1:
            raise UserError(f"ignore_likely.warm_up is a share of the epochs and must lie in [0, 1], got {warm_up}")
        self.tau, self.warm_up, self.scheduled = tau, warm_up, 0 < warm_up < 1

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        if not context.has_begun(self.warm_up):
            return torch.ones_like(completed.observed)
        return completed.observed | (torch.sigmoid(logits.detach()) <= self.tau)
