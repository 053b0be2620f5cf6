r"""Expected positive regularisation (EPR).

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, arXiv:2106.09708.

Paper and code::

    p        p                      sigmoid of the logits                   [B, C]
    k        expected               labels that an item has on average

    (1)  L = sum over observed labels of their cross entropy / (B C)
    (2)      + ((sum over items and labels of p / B - k) / C)^2

The equation numbers are ours.

Reduces to:
    binary_cross_entropy plus the penalty.

Departs from the paper:
    k is the number of observed positives per item unless given. The paper knows the true number: 1.5 (VOC 2012), 2.9
    (COCO), 1.9 (NUS-WIDE), 31.4 (CUB). Set it if you can guess it: with hidden positives the default is too small.
    The paper has no observed negatives; here they count if there are any.

Departs from the authors' code:
    -log p is softplus(-z), not -log(p + 1e-5).
    The mean in the penalty is over the batch of all processes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import in_full_precision
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics, Targets
from raretag.objective.completions import ObservedOnly
from raretag.objective.reductions import Per, expected_count_penalty, reduction
from raretag.objective.scores import CrossEntropy


class ExpectedPositive(Method):
    """Cross entropy of the observed labels, and a penalty on the number of predicted ones.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.ExpectedPositive(statistics, expected=1.5)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.2707
    """

    expected: Tensor

    def __init__(self, statistics: LabelStatistics, *, expected: float | None = None, reduce: Per = "entries") -> None:
        if expected is not None and expected < 0:
            raise UserError(f"expected_positive.expected is a number of labels and must be 0 or more, got {expected}")
        super().__init__(Objective(complete=ObservedOnly(), score=CrossEntropy(), reduce=reduction(reduce)))
        observed = statistics.positives.sum().double() / max(1, statistics.items)
        self.register_buffer("expected", observed if expected is None else torch.tensor(expected, dtype=torch.float64))

    def loss(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        p = torch.sigmoid(in_full_precision(logits))
        return super().loss(logits, targets, context) + expected_count_penalty(p, self.expected, context)

    forward = loss
