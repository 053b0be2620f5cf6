r"""Entropy maximisation (EM) and asymmetric pseudo-labels (APL): a label stays unknown until it is clearly absent.

Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels", ECCV 2022,
arXiv:2203.16219.

Paper and code::

    z, p     logits, p              p = sigmoid(z)                          [B, C]
    alpha    alpha                  weight of the entropy of unknown labels
    beta     beta                   weight of pseudo-labels
    theta    theta                  share of a label's unknown items that become pseudo-negatives
    W        warm_up                share of the epochs before the first pseudo-labels;  E: epochs
    t~       memory                 pseudo-label, state                     [N, C]

    H(p) = -p log p - (1 - p) log(1 - p)
    (1)  L = -log p                                      where the label was observed to be there
    (2)  L = -alpha H(p)                                 where it is unknown
    (3)  L = beta (-t~ log p - (1 - t~) log(1 - p))      where it has a pseudo-label

After each epoch from W on, some of each label's unknown items get a permanent pseudo-label t~ = p: those with the
lowest p that have none yet, theta / (E - W) of all that were unknown. There are no positive pseudo-labels; hence
"asymmetric". The equation numbers are ours.

Reduces to:
    EM alone at `pseudo_labels=False`; binary_cross_entropy at alpha = 0 as well.

Departs from the paper:
    a label observed to be absent is a plain negative; the paper has no such labels.
    alpha, beta and W are the paper's for VOC (.2, .02, half of the epochs); it has (.1, .9) for COCO, (.1, .2) for
    NUS-WIDE and (.01, .4) for CUB. In the warm-up nothing but (2) holds unknown labels back, so p rises everywhere.

Departs from the authors' code:
    p is that of an item's last visit while training, where they predict the training set again after each epoch.
    -log p is softplus(-z), not -log(p + 1e-5).
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import Context, LabelBlock
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import Logistic, Price, minus_log_not_p, minus_log_p
from raretag.core.objective import Objective
from raretag.core.parts import Complete, Score, Weigh
from raretag.core.targets import Completed, LabelStatistics, Targets, either, everywhere
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.item_memory import BLOCK, ItemMemory
from raretag.objective.reductions import Per, reduction

SMALLEST = 1e-6  # of a prediction that is remembered: two bytes tell it from 0


class EntropyMaximisation(Method):
    """The entropy of unknown labels is raised, and the least likely ones gradually become negatives.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.EntropyMaximisation(statistics, items=100)
    >>> context = raretag.Context(index=torch.tensor([7]), epochs=10)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets, context):.4f}")
    0.2381
    """

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        *,
        pseudo_labels: bool = True,
        alpha: float = 0.2,
        beta: float = 0.02,
        theta: float = 0.9,
        warm_up: float = 0.5,
        reduce: Per = "entries",
    ) -> None:
        if min(alpha, beta) < 0:
            raise UserError(f"entropy_maximisation: alpha and beta are weights, 0 or more, got {alpha} and {beta}")
        if not (0 <= theta <= 1 and 0 <= warm_up <= 1):
            raise UserError(f"entropy_maximisation: theta and warm_up are shares in [0, 1], got {theta} and {warm_up}")
        remembered = SurelyAbsent(ItemMemory(items, nothing(statistics)), statistics.unknown, theta, warm_up)
        super().__init__(
            Objective(
                complete=remembered if pseudo_labels else UnknownIsNegative(),
                weigh=ByKnowledge(alpha, beta),
                score=OpenMind(),
                reduce=reduction(reduce),
            )
        )


def nothing(statistics: LabelStatistics) -> Tensor:
    return torch.full((statistics.labels,), torch.nan)


class SurelyAbsent(Complete):
    """t~ where there is one, above 0; else 0 for an unknown label, which `OpenMind` reads as "no idea".

    The memory holds the last prediction of an unknown label, and minus the pseudo-label from the day it has one.
    """

    scheduled = True
    unknown: Tensor

    def __init__(self, memory: ItemMemory, unknown: Tensor, theta: float, warm_up: float) -> None:
        super().__init__()
        self.memory, self.theta, self.warm_up = memory, theta, warm_up
        self.register_buffer("unknown", unknown.clone())  # items [C]

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        found = self.memory.read(context.items.to(logits.device), context).to(logits.dtype)
        value = either(targets.observed, targets.positive, (-found).nan_to_num(0.0).clamp(min=0.0))
        return Completed(value, everywhere(targets.observed), targets.observed)

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        before = self.memory.read(context.items.to(logits.device), context).to(logits.dtype)
        p = torch.sigmoid(logits).clamp(min=SMALLEST)
        new = either(targets.observed, torch.nan, either(before < 0, before, p))
        items = processes.rows(context.items.to(logits.device))
        self.memory.write(items, processes.rows(new), context.epoch, context)

    def end_epoch(self, context: Context) -> None:
        first = round(self.warm_up * context.epochs)  # W, in epochs
        if context.epoch + 1 < first:
            return
        items, labels = self.memory.stored.shape
        number = (self.theta * self.unknown / max(1, context.epochs - first)).long()  # [C]
        every = torch.arange(items, device=self.memory.stored.device)
        for start in range(0, labels, width := max(1, BLOCK // max(1, items))):
            block = Context(every, block=LabelBlock(slice(start, min(start + width, labels)), labels))
            p = self.memory.read(every, block)
            ready = torch.where(p >= 0, p, torch.inf).sort(dim=0, stable=True)
            lowest = (every[:, None] < block.of(number)) & ready.values.isfinite()
            lowest = torch.zeros_like(lowest).scatter_(0, ready.indices, lowest)
            self.memory.write(every, torch.where(lowest, -p, p), context.epoch, block)

    def vital_signs(self) -> dict[str, float]:
        share = self.memory.mean(lambda found: torch.where(found.isnan(), torch.nan, (found < 0).float()))
        return {"pseudo_negatives": float(share.mean())}


class ByKnowledge(Weigh):
    """1 for what was observed, beta for pseudo-labels, alpha for the rest."""

    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        unknown = either(completed.value > 0, logits.new_tensor(self.beta), self.alpha)
        return either(completed.observed, 1.0, unknown)


class OpenMind(Score):
    """Cross entropy, and minus the entropy for an unknown label with t = 0."""

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return minus_log_p(s)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        entropy = torch.sigmoid(s) * minus_log_p(s) + torch.sigmoid(-s) * minus_log_not_p(s)
        return either(open_to_both(completed), -entropy, minus_log_not_p(s))

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        x, unknown = negative, open_to_both(completed)
        entropy = x.p * x.minus_log_p + x.q * x.minus_log_q
        down = Price(
            either(unknown, -entropy, x.minus_log_q),
            either(unknown, x.s * x.p * x.q, x.p),  # dH/ds = -s p (1 - p)
        )
        return Price(positive.minus_log_p, -positive.q), down


def open_to_both(completed: Completed) -> Tensor:
    return ~completed.observed & (completed.value == 0)
