r"""Multi-focal modifier (MFM), the loss of COMIC.

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels" (COMIC), ICCV 2023, arXiv:2304.10539.

Paper and code::

    g+_pn    gamma_pos         positive-negative factor of positives
    g-_pn    gamma_neg         and of negatives
    g_ht     head_tail              head-tail factor of each label, 1 for the most frequent         [C]
    w+, w-   head_tail_pos, head_tail_neg
    n_c      positives              D, the class distribution                                       [C]
    m        margin                 probability shift, as in ASL

         g_ht = (1 - ln(n_c / max n))^root
    (5)  g+ = g+_pn + w+ g_ht,   g- = g-_pn + w- g_ht
    (6)  L+ = -(1 - p)^{g+} log p,   L- = -p_m^{g-} log(1 - p_m),   p_m = max(p - m, 0)

With distribution="dynamic" n_c also counts the labels that a corrector has added (see reflective_correction) since the
epoch began, those of the batch included.

The factors of the paper's Table 4: without P-N gamma_pos = gamma_neg = 0; without H-T head_tail_pos =
head_tail_neg = 0.

Reduces to:
    asymmetric(gamma_pos, gamma_neg, margin) at w+ = w- = 0; focal at equal gammas and margin = 0.

Departs from the paper:
    w+ = 0: a larger power makes the loss of a positive smaller, so (5) as printed takes weight from the rare positives
    that it is meant to help. The printed form: gamma_pos=1, gamma_neg=4, head_tail_pos=1, margin=0,
    detach_focus=False.
    The paper gives no formula for g_ht; this is the code's, with n_c at least 1.
    The paper and the code sum over the batch: reduce="sum".

Departs from the authors' code:
    no class weight; class_weight=True multiplies both sides by g_ht as the code does.
    The mode of autograd is not changed.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import Logistic, Price, barrier
from raretag.core.objective import Objective
from raretag.core.parts import Score
from raretag.core.targets import Completed, LabelStatistics, Targets, zero_outside
from raretag.objective.completions import Unknown, completion
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import (
    focused_negative,
    focused_negative_price,
    focused_positive,
    focused_positive_price,
)

Distribution = Literal["static", "dynamic"]


class MultiFocal(Method):
    """A focusing power for each side of a label and one for its frequency.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.MultiFocal(statistics)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets):.4f}")
    0.4403
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        gamma_pos: float = 0.0,
        gamma_neg: float = 3.0,
        head_tail_pos: float = 0.0,
        head_tail_neg: float = 1.0,
        root: float = 1 / 6,
        margin: float = 0.05,
        class_weight: bool = False,
        distribution: Distribution = "static",
        detach_focus: bool = True,
        unknown: Unknown = "negative",
        reduce: Per = "entries",
    ) -> None:
        if min(gamma_pos, gamma_neg, head_tail_pos, head_tail_neg, root) < 0:
            raise UserError("multi_focal: the powers (gamma_*, head_tail_*, root) must be 0 or more, one is negative")
        if not 0 <= margin < 1:
            raise UserError(f"multi_focal.margin is a shift of probability and must lie in [0, 1), got {margin}")
        score = MultiFocalScore(
            statistics.positives,
            gammas=(gamma_pos, gamma_neg),
            head_tail=(head_tail_pos, head_tail_neg),
            root=root,
            margin=margin,
            class_weight=class_weight,
            dynamic=distribution == "dynamic",
            detach_focus=detach_focus,
        )
        super().__init__(Objective(complete=completion(unknown), score=score, reduce=reduction(reduce)))


class MultiFocalScore(Score):
    positives: Tensor
    added: Tensor
    noted: Tensor

    def __init__(
        self,
        positives: Tensor,
        *,
        gammas: tuple[float, float],
        head_tail: tuple[float, float],
        root: float,
        margin: float,
        class_weight: bool,
        dynamic: bool,
        detach_focus: bool,
    ) -> None:
        super().__init__()
        self.gammas, self.head_tail, self.root, self.margin = gammas, head_tail, root, margin
        self.class_weight, self.dynamic, self.detach_focus = class_weight, dynamic, detach_focus
        self.whole_batch = dynamic
        self.register_buffer("positives", positives.double())
        self.last = torch.zeros_like(self.positives)  # labels that correction added in the last finished epoch
        self.register_buffer("added", torch.zeros_like(self.positives))  # by correction, in the epoch so far
        self.register_buffer("noted", torch.zeros_like(self.positives), persistent=False)  # in the batch

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        g_ht = self._factor(s, completed)
        price = focused_positive(s, self.gammas[0] + self.head_tail[0] * g_ht, self.detach_focus)  # (6)
        return g_ht * price if self.class_weight else price

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        g_ht = self._factor(s, completed)
        price = focused_negative(s, self.gammas[1] + self.head_tail[1] * g_ht, self.margin, self.detach_focus)
        return g_ht * price if self.class_weight else price

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        g_ht = self._factor(positive.s, completed)
        up, down = (
            pn + ht * g_ht if ht else pn  # without head-tail factor a number, which may be a few multiplications
            for pn, ht in zip(self.gammas, self.head_tail, strict=True)
        )
        prices = (
            focused_positive_price(positive, up, self.detach_focus),
            focused_negative_price(negative, down, self.margin, self.detach_focus),
        )
        return (prices[0].times(g_ht), prices[1].times(g_ht)) if self.class_weight else prices

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        if self.dynamic:
            context.add(
                self.added, context.of(self.noted)
            )  # only now: a loss may be computed twice, a step is made once
            context.set(self.noted, 0.0)

    def end_epoch(self, context: Context) -> None:
        self.last = self.added.clone()
        self.added.zero_()

    def vital_signs(self) -> dict[str, float]:
        return {"corrected_in_distribution": float(self.last.sum())} if self.dynamic else {}

    def label_signs(self) -> dict[str, Tensor]:
        return {"positives": self.positives + self.last.to(self.positives)} if self.dynamic else {}

    def _factor(self, s: Tensor, completed: Completed) -> Tensor:
        """g_ht [C]."""
        if self.dynamic or completed.context.block is not None:
            return self._factor_now(s, completed)
        factor: Tensor = self.until_changed((self.positives,), f"{s.dtype}", lambda: self._factor_now(s, completed))
        return factor

    def _factor_now(self, s: Tensor, completed: Completed) -> Tensor:
        context = completed.context
        counts = context.of(self.positives)
        if self.dynamic:
            new = zero_outside(completed.value, completed.counted & ~completed.observed)
            noted = processes.total(new.sum(0).double())
            context.set(self.noted, noted)
            counts = counts + context.of(self.added) + noted
        counts = counts.clamp(min=1.0)
        if not len(counts):
            return counts.to(s.dtype)
        # What no batch changes is known without a look at the other blocks.
        most = context.total(counts.max(), torch.maximum) if self.dynamic else self.positives.max().clamp(min=1.0)
        g_ht: Tensor = (1.0 - torch.log(counts / most)) ** self.root
        return barrier(g_ht.to(s.dtype))
