r"""Hard pseudo-labels: after a warm-up, the target of an unknown label is the model's own decision in the same step.

Lee, "Pseudo-Label: The Simple and Efficient Semi-Supervised Learning Method for Deep Neural Networks", ICML workshop
on Challenges in Representation Learning, 2013.

Paper and code::

    z      logits                   [B, C]
    y      targets                  [B, C] positive, negative, unknown
    tau    tau                      threshold on p

    t = y if observed else 1[p > tau],   p = sigmoid(z), from `start_epoch` on
    L = -t log p - (1 - t) log(1 - p)

Reduces to:
    assume_negative until `start_epoch`; binary_cross_entropy until then with unknown = "ignore".

Departs from the paper:
    the paper has one class for each item, labels whole items, and raises the weight of pseudo-labels slowly. Here each
    unknown label is decided by itself. Before the warm-up ends it is a negative (`unknown`): if only positives are
    observed, a model that ignores the rest predicts every label and would then learn from these predictions.

Departs from the authors' code:
    there is none for several labels; COMIC compares with this method but publishes no code for it.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective.completions import LikelyIsPositive, Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy


class PseudoLabel(Method):
    """An unknown label is what the model predicts in the same step, after a warm-up.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.PseudoLabel(tau=0.6, start_epoch=0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.3048
    """

    def __init__(
        self, *, tau: float = 0.6, start_epoch: int = 1, unknown: Unknown = "negative", reduce: Per = "entries"
    ) -> None:
        super().__init__(
            Objective(
                complete=LikelyIsPositive(tau, start_epoch, completion(unknown)),
                score=CrossEntropy(),
                reduce=reduction(reduce),
            )
        )
