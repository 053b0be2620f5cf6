r"""Decoupled softmax: each label of an item stands alone against the labels that the item does not have.

Gupta et al., "Dual-Encoders for Extreme Multi-Label Classification" (DEXML), ICLR 2024, arXiv:2310.10636.

Paper and code::

    z      logits                   [B, C]
    P      labels that an item has (t > 1/2);  all others that count are N

    L = -1/|P| sum over c in P of log( e^{z_c} / (e^{z_c} + sum over N of e^{z_n}) ),   mean over items

A plain softmax over all labels makes the labels of one item compete with each other; here they do not. With
m = log sum over N of e^{z_n} a term is -log sigmoid(z_c - m), which is how it is computed: s+ = z - m, and the negative
side of a label costs nothing by itself. Only m needs a whole row, so that a head for very many labels can pass its
labels in blocks (streamed/head.py). Scores rank the labels of an item. They are not probabilities, and scores of two
items cannot be compared: set thresholds with `tune`, or take the first k.

Reduces to:
    none. For items with one label it is the plain softmax.

Departs from the paper:
    the paper trains two encoders, of items and of label texts; here it is a loss for the logits of any head.

Departs from the authors' code:
    none: there too a term is divided by the labels of its item (`average_positives=False` sums them, as printed).
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.method import Method
from raretag.core.numerics import log_sum_exp, minus_log_p
from raretag.core.objective import Objective
from raretag.core.parts import Score, Shape, Weigh
from raretag.core.targets import Completed, overlap
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction


class DecoupledSoftmax(Method):
    """Each label of an item against all labels that it does not have.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.DecoupledSoftmax()
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    1.7413
    """

    def __init__(self, *, average_positives: bool = True, unknown: Unknown = "negative", reduce: Per = "rows") -> None:
        super().__init__(
            Objective(
                complete=completion(unknown),
                shape=AgainstNegatives(),
                weigh=ShareOfItem() if average_positives else None,
                score=PositivesAlone(),
                reduce=reduction(reduce),
            )
        )


def there(completed: Completed) -> Tensor:
    return overlap(completed.counted, completed.value > 0.5)


class AgainstNegatives(Shape):
    """s+ = z - m."""

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> tuple[Tensor, Tensor]:
        negatives = overlap(completed.counted, ~there(completed))
        m = context.total(log_sum_exp(logits, negatives, 1), torch.logaddexp)
        return logits - m[:, None], logits


class PositivesAlone(Score):
    """-log p of a label that is there; the others are in its m."""

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return minus_log_p(s)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return torch.zeros_like(s)


class ShareOfItem(Weigh):
    """1 / |P|."""

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        number = context.total(there(completed).sum(1, keepdim=True))
        return 1.0 / number.clamp(min=1).to(logits.dtype)
