r"""Reflective label corrector (RLC) of COMIC, over any other method.

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels" (COMIC), ICCV 2023, arXiv:2304.10539.

Paper and code::

    p_c      p                      prediction                              [B, C]
    P_c      mean                   running mean of p_c over past batches, state      [C]
    tau      tau                    threshold
    B, N     rows, and corrected labels (or all positives) of the batch

    (2)  an unknown label is 1 if p_c > max(tau, P_c), else what the base takes it for
    (3)  L = the base's loss of these labels, times B / N if scale = "corrected" or "positives"

Nothing is corrected before the share `warm_up` of the epochs has passed. In an epoch a label gets at most `cap` times
as many corrections as it has observed positives: a batch that would exceed this does not correct the label.

Reduces to:
    its base at tau = 1.

Departs from the paper:
    warm-up and cap are ours: early and focal predictions are high for every label, and then every label is "missing".
    The factor B / N is off: the reduction of the base already bounds the loss. In print N is the number of corrected
    labels (scale="corrected"). It is often 0, and nothing is said about that: such a batch is not scaled here.
    "Past data with class c" may mean the items that have the label: mean_of="positives".
    The default tau is the paper's, for the paper's base; with a base like binary_cross_entropy, use .5 to .6.

Departs from the authors' code:
    their P_c is the mean over the batch itself (mean_of="batch") and observed positives lose 1 of their logit
    (margin=1), active at once (warm_up=0, cap=None), over base={"name": "multi_focal", "class_weight": True,
    "distribution": "dynamic", "reduce": "sum"}; their N is the number of positives after correction
    (scale="positives").
    Only unknown labels are corrected; in the code an observed negative is unknown too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.method import Base, Method, build_base
from raretag.core.parts import Complete, Weigh
from raretag.core.targets import Completed, LabelStatistics, Targets, either, zero_outside
from raretag.objective.shapes import ObservedMargin

MeanOf = Literal["all", "positives", "batch"]
Scale = Literal["none", "corrected", "positives"]


class ReflectiveCorrection(Method):
    """Treats an unknown label as positive where the prediction is high, on top of any other method.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.ReflectiveCorrection(statistics, items=100, tau=0.7, warm_up=0.0)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.2005
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        seed: int = 0,
        *,
        base: Base = "multi_focal",
        tau: float = 0.7,
        mean_of: MeanOf = "all",
        warm_up: float = 0.1,
        cap: float | None = 1.0,
        scale: Scale = "none",
        margin: float = 0.0,
    ) -> None:
        if not 0 <= tau <= 1:
            raise UserError(f"reflective_correction.tau is a probability, got {tau}")
        if not 0 <= warm_up <= 1:
            raise UserError(f"reflective_correction.warm_up is a share of the epochs in [0, 1], got {warm_up}")
        if cap is not None and cap < 0:
            raise UserError(
                f"reflective_correction.cap is a multiple of the positives and must be 0 or more, got {cap}"
            )
        below = build_base("reflective_correction", base, statistics, items=items, seed=seed)
        objective = below.objective
        corrector = Corrector(
            objective.complete, statistics.positives, tau=tau, mean_of=mean_of, warm_up=warm_up, cap=cap
        )
        if margin and objective.shape is not None:
            raise UserError("reflective_correction.margin shapes the logits, which its base does too; set it to 0")
        super().__init__(
            objective.replaced(
                complete=corrector,
                shape=ObservedMargin(margin) if margin else objective.shape,
                weigh=objective.weigh if scale == "none" else RowsPer(scale, objective.weigh),
            )
        )
        self.sampler = below.sampler


class Corrector(Complete):
    """(2). Usable in the slot `complete` of any objective."""

    whole_batch = True
    positives: Tensor
    total: Tensor
    number: Tensor
    corrected: Tensor
    finished: Tensor
    ever: Tensor
    right: Tensor
    truth: Callable[[Tensor], Targets] | None = None  # labels of rows before some were hidden: to count, not to learn

    def __init__(
        self,
        below: Complete,
        positives: Tensor,
        *,
        tau: float,
        mean_of: MeanOf,
        warm_up: float,
        cap: float | None,
    ) -> None:
        super().__init__()
        self.below, self.tau, self.mean_of, self.warm_up, self.cap = below, tau, mean_of, warm_up, cap
        self.scheduled = 0 < warm_up < 1
        self.register_buffer("positives", positives.clone())
        self.register_buffer("total", torch.zeros(len(positives), dtype=torch.float64))  # sum of p
        self.register_buffer("number", torch.zeros(len(positives), dtype=torch.float64))  # of predictions in it
        self.register_buffer("corrected", torch.zeros_like(positives))  # labels [C], in the running epoch
        self.register_buffer("finished", torch.zeros((), dtype=torch.int64))  # labels, in the last finished epoch
        self.register_buffer("ever", torch.zeros((), dtype=torch.int64))
        self.register_buffer("right", torch.zeros_like(positives))  # of the corrected ones, where the truth is known
        self.last: dict[str, Tensor] = {}  # both, in the last finished epoch

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        below: Completed = self.below(logits, targets, context)
        corrected = self.corrections(logits.detach(), targets, context)
        return Completed(either(corrected, 1.0, below.value), below.counted | corrected, below.observed)

    def corrections(self, logits: Tensor, targets: Targets, context: Context) -> Tensor:
        """Which unknown labels are taken to be there: bool [B, C]."""
        if not context.has_begun(self.warm_up):
            return torch.zeros_like(targets.observed)
        p = torch.sigmoid(logits)
        missing = ~targets.observed & (p > self.mean(p, context).clamp(min=self.tau).to(p.dtype))
        if self.cap is None:
            return missing
        # All of a batch or none of it: this needs no order among the rows of different processes.
        corrected = context.of(self.corrected) + processes.total(missing.sum(0))
        allowed = corrected <= self.cap * context.of(self.positives)
        return missing & allowed

    def mean(self, p: Tensor, context: Context = NO_CONTEXT) -> Tensor:
        """P_c [C]; 0 before the first prediction."""
        if self.mean_of == "batch":
            return processes.total(p.sum(0)) / processes.total(p.new_tensor(float(len(p)))).clamp(min=1.0)
        return context.of(self.total) / context.of(self.number).clamp(min=1.0)

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        corrections = self.corrections(logits, targets, context)
        corrected = processes.total(corrections.sum(0))
        if self.truth is not None:
            there = context.of(self.truth(context.items.cpu()).to(logits.device).positive > 0.5)
            context.add(self.right, processes.total((corrections & there).sum(0)))
        context.add(self.corrected, corrected)
        self.ever += corrected.sum()
        counted = targets.positive > 0.5 if self.mean_of == "positives" else torch.ones_like(targets.observed)
        context.add(self.total, processes.total((torch.sigmoid(logits) * counted).sum(0).double()))
        context.add(self.number, processes.total(counted.sum(0).double()))

    def end_epoch(self, context: Context) -> None:
        self.finished.copy_(self.corrected.sum())
        self.last = {"corrected": self.corrected.clone()}
        if self.truth is not None:
            self.last["corrected_rightly"] = self.right.clone()
        self.corrected.zero_()
        self.right.zero_()

    def label_signs(self) -> dict[str, Tensor]:
        return self.last

    def vital_signs(self) -> dict[str, float]:
        return {"corrected_last_epoch": float(self.finished), "corrected_ever": float(self.ever)}


class RowsPer(Weigh):
    """B / N: rows over corrected labels, or over all positives, in the batch of all processes."""

    whole_batch = True

    def __init__(self, of: Literal["corrected", "positives"], below: Weigh | None) -> None:
        super().__init__()
        self.of, self.below = of, below

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        rows = processes.total(logits.new_tensor(float(len(logits))))
        value = zero_outside(completed.value, completed.counted)
        if self.of == "corrected":
            corrected = (~completed.observed & (value == 1)).sum().to(rows.dtype)
            number = processes.total(context.total(corrected))
            number = torch.where(number > 0, number, rows)  # nothing was corrected: a factor of 1
        else:
            number = processes.total(context.total(value.sum()))
        scale = rows / number.clamp(min=1.0)
        return scale if self.below is None else scale * self.below(logits, completed, context)
