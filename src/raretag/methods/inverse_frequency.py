r"""Re-weighting by the square root of the inverse frequency (RW).

A baseline of Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed Datasets",
ECCV 2020, arXiv:2007.09654, section 4.2.

Paper and code::

    n_c    counts                   positives of label c in the data set
    N      items

    w_c = sqrt(N / n_c), divided by the largest of them
    L = w_c score(z, y),   score = BCE, or focal with gamma and balance

Reduces to:
    binary_cross_entropy, or focal, if all labels are equally frequent.

Departs from the paper:
    "between 0 and 1 in a mini-batch" divides by a maximum that is the same for every batch, so it is taken once.
    `normalise=False` leaves sqrt(N / n_c). A label without positives counts as if it had one.

Departs from the authors' code:
    none.
"""

from __future__ import annotations

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics
from raretag.objective import scores, weights
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction


class InverseFrequency(Method):
    """Cross entropy, or focal, times the root of the inverse frequency.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.InverseFrequency(statistics)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.3736
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        normalise: bool = True,
        score: scores.ScoreName = "bce",
        gamma: float = 2.0,
        balance: float = 2.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        w = (statistics.items / weights.counts(statistics)) ** 0.5  # [C]
        super().__init__(
            Objective(
                complete=completion(unknown),
                weigh=weights.LabelWeights(w / w.max() if normalise else w),
                score=scores.score(score, gamma, balance),
                reduce=reduction(reduce),
            )
        )
