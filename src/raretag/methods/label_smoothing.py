r"""Label smoothing (BCE-LS).

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016, arXiv:1512.00567; for labels
as in Cole et al., CVPR 2021, arXiv:2106.09708.

Paper and code::

    z     logits                    [B, C]
    y     targets                   [B, C] positive, negative, unknown
    e     smoothing

    t = (1 - e) y + e (1 - y)
    L = -t log p - (1 - t) log(1 - p),   p = sigmoid(z)

Reduces to:
    binary_cross_entropy at smoothing = 0, unknown = "ignore".

Departs from the paper:
    with two outcomes Szegedy et al. would write 1 - e/2 and e/2; this is the form of Cole et al.

Departs from the authors' code:
    -log p is softplus(-z), not -log(p + 1e-5), so a saturated error still has a gradient.
"""

from __future__ import annotations

from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Complete
from raretag.core.targets import Completed, Targets
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class LabelSmoothing(Method):
    """Cross entropy with targets of e and 1 - e.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.LabelSmoothing(smoothing=0.1)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9548
    """

    def __init__(self, *, smoothing: float = 0.1, unknown: Unknown = "negative", reduce: Per = "entries") -> None:
        if not 0 <= smoothing < 0.5:
            raise UserError(f"label_smoothing.smoothing must lie in [0, 0.5), got {smoothing}; at 0.5 no label is left")
        super().__init__(
            Objective(complete=Smoothed(completion(unknown), smoothing), score=CrossEntropy(), reduce=reduction(reduce))
        )


class Smoothed(Complete):
    """Nobody is quite sure: 1 - e for what is there, e for what is not."""

    def __init__(self, complete: Complete, smoothing: float) -> None:
        super().__init__()
        self.complete, self.smoothing = complete, smoothing

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        t: Completed = self.complete(logits, targets, context)
        return Completed(t.value * (1.0 - 2.0 * self.smoothing) + self.smoothing, t.counted, t.observed)
