"""How much positives and negatives weigh, from how many of them a batch holds (Zhang et al., 2023, eq. 8)."""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.logistic import Logistic, Price
from raretag.core.numerics import minus_log_not_p, minus_log_p
from raretag.core.parts import Score
from raretag.core.targets import Completed


class Balanced(Score):
    """alpha on the positive side, beta on the negative side."""

    def __init__(self, balance: str | float, on: str, total: str, gamma: float) -> None:
        super().__init__()
        self.balance, self.on, self.total, self.gamma = balance, on, total, gamma
        self.whole_batch = balance == "batch"

    def beta(self, completed: Completed) -> Tensor:
        """[B, C] or one number."""
        value = completed.value
        beta = self.of_counts(*(self._of_batch(completed) if self.balance == "batch" else (value, value)))
        return beta if self.on == "all" else torch.where(completed.observed, beta, 0.5)

    def _of_batch(self, completed: Completed) -> tuple[Tensor, Tensor]:
        value, observed, context = completed.value, completed.observed, completed.context
        P = context.total(torch.where(observed, value, 0.0).sum())
        if self.total == "observed":
            return P, context.total(observed.sum()).to(value.dtype)
        return P, value.new_tensor(float(len(value) * context.labels(value)))

    def of_counts(self, P: Tensor, T: Tensor) -> Tensor:
        if not isinstance(self.balance, str):
            return P.new_tensor(1.0 - self.balance)
        if self.balance == "equal":
            return P.new_tensor(0.5)
        both = processes.total(torch.stack([P, T]))
        return (both[0] / both[1].clamp(min=1.0)).clamp(min=self.gamma)

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return (1.0 - self.beta(completed)) * minus_log_p(s)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return self.beta(completed) * minus_log_not_p(s)

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        beta = self.beta(completed)
        return (
            Price(positive.minus_log_p, -positive.q).times(1.0 - beta),
            Price(negative.minus_log_q, negative.p).times(beta),
        )
