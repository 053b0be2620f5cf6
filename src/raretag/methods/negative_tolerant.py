r"""Negative-tolerant regularisation (NT-BCE): a negative that is low enough is left alone.

Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets", ECCV 2020,
arXiv:2007.09654.

Paper and code::

    n_i, N           counts, items  positives of label i, and items in the data set
    nu_i             nu             threshold of label i, above 0 for rare labels
    lambda           scale          5 for VOC-MLT, 2 for COCO-MLT
    kappa            kappa

    (9)  b_i = -log(N / n_i - 1),   nu_i = -kappa b_i
    (7)  L = y log(1 + e^{-(z - nu)}) + (1 - y) / lambda log(1 + e^{lambda (z - nu)})

    With `positive_scale` the first term has a lambda of its own (section 4.5).
    Equation (9) and the logits of (7) are `NegativeTolerance` in raretag/objective/shapes.py.

Reduces to:
    binary_cross_entropy at scale = 1, kappa = 0, unknown = "ignore".

Departs from the paper:
    A label without positives counts as if it had one; a label that every item has, as if one item lacked it.

Departs from the authors' code:
    theirs divides nu by lambda, which they call a slip; `shift_over_scale=True` reproduces it.
    the logits are not changed in place. Their code has no NT-BCE without the re-balancing weights.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy
from raretag.objective.shapes import NegativeTolerance
from raretag.objective.weights import SideWeights


class NegativeTolerant(Method):
    """A negative that is low enough is left alone.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.NegativeTolerant(statistics, scale=5.0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.8371
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        scale: float = 5.0,
        kappa: float = 0.05,
        shift_over_scale: bool = False,
        positive_scale: float = 1.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        super().__init__(
            Objective(
                complete=completion(unknown),
                shape=NegativeTolerance(
                    statistics, scale, kappa, shift_over_scale=shift_over_scale, positive_scale=positive_scale
                ),
                weigh=SideWeights(1.0 / positive_scale, 1.0 / scale),
                score=CrossEntropy(),
                reduce=reduction(reduce),
            )
        )
