r"""Large loss: of the unknown labels taken as negatives, those with the largest loss are probably positives.

Kim et al., "Large Loss Matters in Weakly Supervised Multi-Label Classification", CVPR 2022, arXiv:2206.03740.

Paper and code::

    z      logits                   [B, C]
    e      epoch, from 0
    delta  delta                    share of the label slots of a batch that is added with each epoch
    k      ceil(B C delta e)        how many unknown labels of the batch are distrusted

    t = y if observed else 0
    R      the k largest of -log(1 - p) among the unknown labels of the batch

    scheme="reject"    (LL-R)       no term in R
    scheme="correct"   (LL-Ct)      t = 1 in R, for this step
    scheme="permanent" (LL-Cp)      t = 1 in R, for good; k = ceil(B C delta) in each step from the second epoch on

Reduces to:
    assume_negative in the first epoch, and at delta = 0.

Departs from the paper:
    labels observed to be absent always count as negatives; the paper has no such labels.
    The paper trains for 10 epochs, in which delta adds up to 4.5 % of all labels. With more epochs it adds up to more:
    choose it so that delta times the epochs is the share of positives that may be missing.

Departs from the authors' code:
    if fewer than k labels are unknown, theirs also changes observed ones. Theirs does not correct the k-th itself for
    good. delta is a share and not in percent: .005, .002, .001 are the values of their later code.
"""

from __future__ import annotations

from math import ceil
from typing import Literal

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Complete, Keep
from raretag.core.targets import Completed, LabelStatistics, Targets, either, everywhere
from raretag.objective.completions import UnknownIsNegative, kth_unknown
from raretag.objective.item_memory import ItemMemory
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy

Scheme = Literal["reject", "correct", "permanent"]
DELTA: dict[Scheme, float] = {"reject": 0.005, "correct": 0.002, "permanent": 0.001}


class LargeLoss(Method):
    """An unknown label is a negative, unless its loss is among the largest of the batch.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.LargeLoss(statistics, items=100)
    >>> context = raretag.Context(index=torch.tensor([7]), epoch=1, epochs=10)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets, context):.4f}")
    0.2624
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        *,
        scheme: Scheme = "reject",
        delta: float | None = None,
        reduce: Per = "entries",
    ) -> None:
        delta = DELTA[scheme] if delta is None else delta
        if not 0 <= delta <= 1:
            raise UserError(f"large_loss.delta is a share of the labels of a batch and must lie in [0, 1], got {delta}")
        memory = None
        if scheme == "permanent":
            memory = ItemMemory(items, torch.zeros(statistics.labels), precision="uint8")
        super().__init__(
            Objective(
                complete=UnknownIsNegative() if scheme == "reject" else Corrected(delta, memory),
                keep=Believed(delta) if scheme == "reject" else None,
                score=CrossEntropy(),
                reduce=reduction(reduce),
            )
        )


def largest(logits: Tensor, unknown: Tensor, share: float, context: Context) -> Tensor:
    """[B, C] bool: R, with all that are as large as its last one. The loss of a negative rises with its logit."""
    rows = int(processes.total(torch.tensor(len(logits), device=logits.device)))
    k = ceil(rows * context.labels(logits) * share - 1e-9)  # 200 * 0.005 * 3 is 3.0000000000000004
    return unknown & (logits >= kth_unknown(logits, unknown, k, context))


class Believed(Keep):
    """All but R."""

    whole_batch = True

    def __init__(self, delta: float) -> None:
        super().__init__()
        self.delta = delta

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return ~largest(logits.detach(), ~completed.observed, self.delta * context.epoch, context)


class Corrected(Complete):
    """t = 1 in R, and with a memory in all that was once in R."""

    whole_batch = True

    def __init__(self, delta: float, memory: ItemMemory | None) -> None:
        super().__init__()
        self.delta, self.memory = delta, memory
        self.now: Tensor | None = None  # R of the step that is under way, of which `observe` learns

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        before = torch.zeros_like(targets.observed)
        share = self.delta * context.epoch
        if self.memory is not None:
            before = targets.unknown & (self.memory.read(context.items.to(logits.device), context) > 0.5)
            share = self.delta if context.epoch else 0.0
        self.now = before | largest(logits.detach(), targets.unknown & ~before, share, context)
        value = either(self.now, 1.0, targets.positive)
        return Completed(value, everywhere(targets.observed), targets.observed)

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        if self.memory is not None and self.now is not None:
            items = processes.rows(context.items.to(logits.device))
            self.memory.write(items, processes.rows(self.now.float()), context.epoch, context)
        self.now = None

    def vital_signs(self) -> dict[str, float]:
        return {} if self.memory is None else {"corrected_share": float(self.memory.mean().mean())}
