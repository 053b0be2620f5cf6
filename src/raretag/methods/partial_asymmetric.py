r"""Partial asymmetric loss with class-aware selection (P-ASL, CSL): unknown labels count only if clearly absent.

Ben-Baruch et al., "Multi-label Classification with Partial Annotations using Class-aware Selective Loss", CVPR 2022,
arXiv:2110.10955.

Paper and code::

    z, y           logits, targets                  [B, C]
    g+, g-, g_u    gamma_pos, gamma_neg, gamma_unknown
    K              likely                           unknown labels dropped for each row of the batch
    P_c, eta       prior, prior_threshold           how frequent label c is, by the model of a first run:
                                                    a list, or the record.json of that run (in mode "ignore")

    L = -(1 - p)^{g+} log p     if y = 1
        -p_m^{g-} log(1 - p_m)  if y = 0,   p_m = max(p - m, 0),  p = sigmoid(z)
        -p_m^{g_u} log(1 - p_m) if y is unknown and kept

    mode  negative          every unknown label is kept
          ignore            none is
          ignore_normalize  none is; the row weighs 1 + 1 / (1 + its observed labels)
          selective         not those with P_c > eta, nor the K B most probable ones of the whole batch

Reduces to:
    asymmetric with unknown = "ignore" at mode = "ignore", and at mode = "negative" if gamma_unknown = gamma_neg.

Departs from the paper:
    none; the defaults are those of the authors' runs (README), not of their command line.

Departs from the authors' code:
    the mean over B C instead of the sum. The K B most probable labels are those of all processes, and ties with the
    last one are dropped too. `detach_focus=True` stops the gradient as theirs does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import Logistic, Price
from raretag.core.objective import Objective
from raretag.core.parts import Keep, Score, Weigh
from raretag.core.targets import Completed, LabelStatistics, Targets, either
from raretag.objective.completions import completion, kth_unknown
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import (
    focused_negative,
    focused_negative_price,
    focused_positive,
    focused_positive_price,
)


class PartialAsymmetric(Method):
    """Only unknown labels that are almost certainly negative count.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.PartialAsymmetric(statistics, likely=1)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.1861
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        mode: Literal["negative", "ignore", "ignore_normalize", "selective"] = "selective",
        gamma_pos: float = 0.0,
        gamma_neg: float = 1.0,
        gamma_unknown: float = 4.0,
        margin: float = 0.0,
        likely: int = 5,
        prior: list[float] | str | None = None,
        prior_threshold: float = 0.5,
        detach_focus: bool = False,
        reduce: Per = "entries",
    ) -> None:
        prior = from_record(prior) if isinstance(prior, str) else prior or [0.0] * statistics.labels
        if len(prior) != statistics.labels:
            raise UserError(f"partial_asymmetric.prior has {len(prior)} numbers for {statistics.labels} labels")
        if min(gamma_pos, gamma_neg, gamma_unknown, likely) < 0 or not 0 <= margin < 1:
            raise UserError("partial_asymmetric: gammas and likely must be 0 or more, and margin must lie in [0, 1)")
        super().__init__(
            Objective(
                complete=completion("ignore" if mode.startswith("ignore") else "negative"),
                keep=Selected(prior, prior_threshold, likely) if mode == "selective" else None,
                weigh=FewObservedWeighMore() if mode == "ignore_normalize" else None,
                score=PartialAsymmetricScore(
                    (gamma_pos, gamma_neg, gamma_unknown), margin, detach_focus, statistics.labels
                ),
                reduce=reduction(reduce),
            )
        )

    def learned(self) -> dict[str, Any]:
        score = self.objective.score
        assert isinstance(score, PartialAsymmetricScore)
        return {"class_prior": score.prior.tolist()}


def from_record(path: str) -> list[float]:
    try:
        prior: list[float] = json.loads(Path(path).read_text(encoding="utf-8"))["method"]["learned"]["class_prior"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"partial_asymmetric.prior is '{path}'; expected numbers, or the record.json of an earlier run of it"
        ) from None
    return prior


class Selected(Keep):
    """What was observed, and the unknown labels that are neither frequent nor among the most probable of the batch."""

    frequent: Tensor
    whole_batch = True
    looks_everywhere = True

    def __init__(self, prior: list[float], threshold: float, likely: int) -> None:
        super().__init__()
        self.likely = likely
        self.register_buffer("frequent", torch.tensor([p > threshold for p in prior]))  # [C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        k = self.likely * int(processes.total(torch.tensor(len(logits), device=logits.device)))
        last = kth_unknown(logits, ~completed.observed, k, context)
        return completed.observed | ~(context.of(self.frequent) | (logits.detach() >= last))


class FewObservedWeighMore(Weigh):
    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return 1.0 + 1.0 / (1.0 + context.total(completed.observed.sum(1, keepdim=True)).to(logits.dtype))


class PartialAsymmetricScore(Score):
    """ASL in which negatives that nobody observed have a power of their own. Notes P_c for a second run."""

    looks_everywhere = True
    total: Tensor
    number: Tensor
    prior: Tensor

    def __init__(self, gammas: tuple[float, float, float], margin: float, detach_focus: bool, labels: int) -> None:
        super().__init__()
        self.gammas, self.margin, self.detach_focus = gammas, margin, detach_focus
        self.register_buffer("total", torch.zeros(labels, dtype=torch.float64))  # of p, in the running epoch
        self.register_buffer("number", torch.zeros((), dtype=torch.float64))
        self.register_buffer("prior", torch.zeros(labels, dtype=torch.float64))  # mean of p in the last epoch

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        context.add(self.total, processes.total(torch.sigmoid(logits).sum(0).double()))
        if context.first:
            self.number += processes.total(self.number.new_tensor(float(len(logits))))

    def end_epoch(self, context: Context) -> None:
        self.prior.copy_(self.total / self.number.clamp(min=1.0))
        self.total.zero_()
        self.number.zero_()

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return focused_positive(s, self.gammas[0], self.detach_focus)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return focused_negative(s, self.gamma_of_negatives(s, completed), self.margin, self.detach_focus)

    def gamma_of_negatives(self, s: Tensor, completed: Completed) -> Tensor:
        return either(completed.observed, s.new_tensor(self.gammas[1]), self.gammas[2])

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        gamma = self.gamma_of_negatives(negative.s, completed)
        return (
            focused_positive_price(positive, self.gammas[0], self.detach_focus),
            focused_negative_price(negative, gamma, self.margin, self.detach_focus),
        )
