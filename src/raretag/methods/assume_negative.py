r"""Assume negative (AN): an unknown label counts as absent.

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, arXiv:2106.09708.

Paper and code::

    z   logits                      [B, C]
    y   targets                     [B, C] positive, negative, unknown

    t = y if observed else 0
    L = -t log p - (1 - t) log(1 - p),   p = sigmoid(z)

Reduces to:
    binary_cross_entropy if every label is observed.

Departs from the paper:
    none.

Departs from the authors' code:
    -log p is softplus(-z), not -log(p + 1e-5), so a saturated error still has a gradient.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class AssumeNegative(Method):
    """Binary cross entropy in which an unknown label is a negative.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.AssumeNegative()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9714
    """

    def __init__(self, *, reduce: Per = "entries") -> None:
        super().__init__(Objective(complete=UnknownIsNegative(), score=CrossEntropy(), reduce=reduction(reduce)))
