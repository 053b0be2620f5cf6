r"""Binary cross entropy, and after training a shift of each logit as if all labels were equally frequent.

Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, arXiv:2007.07314, section 4.1 (post-hoc), here with
odds in place of class priors because a row may have several labels.

Paper and code::

    n_c            statistics.positives            positives of label c among N items
    o_c            n_c / (N - n_c)                 the odds of the label
    o              the odds of the mean share of positives, 1/C sum_c n_c / N
    tau            strength

    z' = z - tau (log o_c - log o)                 when predicting; training never sees it

A shift is one number for each label, so it moves the operating point and leaves each label's own ranking as it was. It
is the fair baseline for methods whose gain is at the threshold of 0.5.

Reduces to:
    binary_cross_entropy with the same `unknown` as far as training goes, and for tau = 0 altogether.

Departs from the paper:
    odds and sigmoids instead of priors and a softmax. A label without positives counts as if it had one; a label that
    every item has, as if one item lacked it.

Departs from the authors' code:
    the same.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy
from raretag.objective.weights import counts


class LogitShift(Method):
    """Cross entropy, and a shift of each logit when predicting: `loss.logits(outputs)`.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.LogitShift(statistics)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.9714
    """

    shift: Tensor

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        strength: float = 1.0,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        super().__init__(Objective(complete=completion(unknown), score=CrossEntropy(), reduce=reduction(reduce)))
        share = (counts(statistics) / max(statistics.items, 2)).clamp(max=1.0)  # [C]
        shift = -strength * (share.logit(eps=1e-6) - share.mean().logit(eps=1e-6))
        self.register_buffer("shift", shift, persistent=False)  # so that any checkpoint of the loss can be read out so

    def logits(self, outputs: Any) -> Tensor:
        shifted: Tensor = outputs + self.shift.to(outputs)
        return shifted
