r"""Self-paced loss correction (SPLC): an unknown label that the model finds likely becomes a positive, step by step.

Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels", 2021, arXiv:2112.07368.

Paper and code::

    z      logits                   [B, C]
    y      targets                  [B, C] positive, negative, unknown
    tau    tau                      threshold on p
    m      margin                   on the logit of observed positives alone
    g      gamma                    focusing power

    t = y if observed else 1[p > tau],   p = sigmoid(z), from `start_epoch` on; 0 before
    s = z - m if observed and y = 1 else z
    L = focal(s, t; g)

Reduces to:
    focal at margin = 0 until `start_epoch`.

Departs from the paper:
    a label observed to be absent stays absent. The paper has no such labels.

Departs from the authors' code:
    the mean over B C instead of the sum over the batch, which works with Adam only (`reduce="sum"` is theirs).
    tau was .65 for COCO with 75 % of its labels.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.objective import scores
from raretag.objective.completions import LikelyIsPositive, UnknownIsNegative
from raretag.objective.reductions import Per, reduction
from raretag.objective.shapes import ObservedMargin


class Splc(Method):
    """An unknown label with a high prediction becomes a positive, after a warm-up.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> loss = raretag.methods.Splc(tau=0.6, start_epoch=0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.1340
    """

    def __init__(
        self,
        *,
        tau: float = 0.6,
        start_epoch: int = 1,
        margin: float = 1.0,
        gamma: float = 2.0,
        reduce: Per = "entries",
    ) -> None:
        super().__init__(
            Objective(
                complete=LikelyIsPositive(tau, start_epoch, UnknownIsNegative()),
                shape=ObservedMargin(margin),
                score=scores.Focal(gamma),
                reduce=reduction(reduce),
            )
        )
