r"""Binary cross entropy over the observed labels (BCE, "ERM").

The loss that every paper compares with; Zhang et al. eq. (1), PLM eq. (1).

Paper and code::

    z   logits                      [B, C]
    y   targets                     [B, C] positive, negative, unknown

    (1)  L = -y log p - (1 - y) log(1 - p),   p = sigmoid(z)

Reduces to:
    torch's `binary_cross_entropy_with_logits` if every label is observed.

Departs from the paper:
    an unknown label has no term; `unknown="negative"` counts it as a negative (see `assume_negative`).

Departs from the authors' code:
    none.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class BinaryCrossEntropy(Method):
    """Cross entropy of the observed labels; an unknown label has no term.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.BinaryCrossEntropy()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.2624
    """

    def __init__(self, *, unknown: Unknown = "ignore", reduce: Per = "entries") -> None:
        super().__init__(Objective(complete=completion(unknown), score=CrossEntropy(), reduce=reduction(reduce)))
