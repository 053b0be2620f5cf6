r"""Distribution-balanced loss (DB, DB-Focal): re-balanced weights and negative tolerance at once.

Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets", ECCV 2020,
arXiv:2007.09654.

Paper and code::

    r^_i             weight         [B, C]  (2)-(4) with alpha, beta, mu   `Rebalancing` in objective/weights.py
    nu_i             nu             [C]     (9) with kappa                 `NegativeTolerance` in objective/shapes.py
    lambda           scale          5 for VOC-MLT, 2 for COCO-MLT (mu = .3 and .2)

    (10)  L = r^_i [ y pos(z - nu) + (1 - y) / lambda neg(lambda (z - nu)) ]

          DB        pos(s) = log(1 + e^{-s}),  neg(s) = log(1 + e^s)
          DB-Focal  b (1 - p)^g times pos, b p^g times neg, p = sigmoid(s), g = `gamma`, b = `balance`

Section 4.5 also tries "the same form of regularization" on positive logits and finds a slight loss: `positive_scale` =
lambda gives y / lambda pos(lambda (z - nu)).

Reduces to:
    rebalanced at scale = 1, kappa = 0; (alpha + 1/2) times negative_tolerant at beta = 0.

Departs from the paper:
    A label without positives counts as if it had one; a label that every item has, as if one item lacked it.

Departs from the authors' code:
    theirs divides nu by lambda, which they call a slip; `shift_over_scale=True` reproduces it.
    the logits are not changed in place, and the mean is taken here. Their configurations called DB are DB-Focal
    (`score="focal"`).
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics
from raretag.objective import scores
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.shapes import NegativeTolerance
from raretag.objective.weights import Product, Rebalancing, SideWeights


class DistributionBalanced(Method):
    """Re-balanced weights and tolerance for negatives; meant for class-aware sampling.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.DistributionBalanced(statistics, kappa=0.05)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.8404
    """

    sampler = "class_aware"

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.3,
        scale: float = 5.0,
        kappa: float = 0.05,
        shift_over_scale: bool = False,
        positive_scale: float = 1.0,
        score: scores.ScoreName = "bce",
        gamma: float = 2.0,
        balance: float = 2.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        super().__init__(
            Objective(
                complete=completion(unknown),
                shape=NegativeTolerance(
                    statistics, scale, kappa, shift_over_scale=shift_over_scale, positive_scale=positive_scale
                ),
                weigh=Product(Rebalancing(statistics, alpha, beta, mu), SideWeights(1.0 / positive_scale, 1.0 / scale)),
                score=scores.score(score, gamma, balance),
                reduce=reduction(reduce),
            )
        )
