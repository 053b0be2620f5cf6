r"""Re-balanced weighting (R-BCE, R-Focal): corrects class-aware sampling for labels that occur together.

Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets", ECCV 2020,
arXiv:2007.09654.

Paper and code::

    n_i              counts         positives of label i in the data set
    r^               weight         [B, C]
    alpha, beta, mu                 lift, slope and centre of the smoothing (mu = .3 VOC-MLT, .2 COCO-MLT)

    (2)  P^C_i = 1 / (C n_i),   P^I = sum over the labels j of the row of 1 / (C n_j)
    (3)  r_i = P^C_i / P^I
    (4)  r^_i = alpha + sigmoid(beta (r_i - mu))
    (5)  L = r^_i score(z, y),   score = BCE, or focal with gamma and balance

    Equations (2)-(4) are `Rebalancing` in raretag/objective/weights.py.

Reduces to:
    (alpha + 1/2) times binary_cross_entropy, or focal, at beta = 0.

Departs from the paper:
    none; a label without positives counts as if it had one.

Departs from the authors' code:
    none. Their parameters called alpha, beta, gamma are beta, mu, alpha here, as in the paper.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics
from raretag.objective import scores, weights
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction


class Rebalanced(Method):
    """Weights that undo what class-aware sampling repeats because labels occur together.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.Rebalanced(statistics, mu=0.3)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9839
    """

    sampler = "class_aware"

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.3,
        score: scores.ScoreName = "bce",
        gamma: float = 2.0,
        balance: float = 2.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        super().__init__(
            Objective(
                complete=completion(unknown),
                weigh=weights.Rebalancing(statistics, alpha, beta, mu),
                score=scores.score(score, gamma, balance),
                reduce=reduction(reduce),
            )
        )
