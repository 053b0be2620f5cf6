"""What an unknown label is taken to be: nothing, a negative, or what the model predicts in this step.

No gradient flows through a completion. A completion with a memory belongs to its method.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.parts import Complete
from raretag.core.targets import Completed, Targets, either, everywhere

MANY, SAMPLED = 2**15, 64
Unknown = Literal["ignore", "negative"]


class ObservedOnly(Complete):
    """An unknown label has no term."""

    plain = True

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        return Completed(targets.positive, targets.observed, targets.observed)

    def multiplied(self, labels: int, context: Context) -> Tensor:
        return torch.empty(0, dtype=torch.int64)


class UnknownIsNegative(Complete):
    """t = 0 where nobody looked."""

    plain = True

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        return Completed(targets.positive, everywhere(targets.observed), targets.observed)


def completion(unknown: Unknown) -> Complete:
    """The option `unknown` that most methods have."""
    return {"ignore": ObservedOnly, "negative": UnknownIsNegative}[unknown]()


class LikelyIsPositive(Complete):
    """From `start_epoch` on, t = 1 for an unknown label with p > tau and 0 for the others; before it, as `before` does.

    Beware of a low tau and of losses that let p start high (focal, asymmetric): then everything becomes positive.
    """

    def __init__(self, tau: float, start_epoch: int, before: Complete) -> None:
        super().__init__()
        if not 0 < tau <= 1:
            raise UserError(f"tau is a probability above which an unknown label counts as positive, got {tau}")
        self.tau, self.start_epoch, self.before = tau, start_epoch, before

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        if context.epoch < self.start_epoch:
            completed: Completed = self.before(logits, targets, context)
            return completed
        likely = targets.unknown & (torch.sigmoid(logits.detach()) > self.tau)
        value = either(likely, 1.0, targets.positive)
        return Completed(value, everywhere(targets.observed), targets.observed)


def kth_unknown(logits: Tensor, unknown: Tensor, k: int, context: Context) -> Tensor:
    """The k-th highest logit among the unknown labels of the batch, of all processes and blocks of labels.

    Minus infinity if there are fewer; infinity for k = 0.
    """
    ranked = either(unknown, logits.detach(), -torch.inf).flatten()
    few = processes.rows(highest(ranked, k))  # all that can be among the k of all processes
    few = context.total(few, lambda some, more: highest(torch.cat([some, more]), k))
    return highest(few, k)[-1] if k and len(few) else logits.new_tensor(torch.inf)


def highest(values: Tensor, k: int) -> Tensor:
    """The k largest of a vector, or all of it, from the largest down."""
    if values.device.type == "cpu" and len(values) > MANY and k < len(values) // 8:
        sample = values[::SAMPLED].sort().values  # about twice k values are above what this finds: a shorter vector
        above = values[values >= sample[max(0, len(sample) - 2 * k // SAMPLED - 10)]]
        values = above if len(above) >= k else values
    return values.topk(min(k, len(values))).values
