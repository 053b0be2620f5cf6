"""The price of one label, as a function of its (shaped) logit s: positive(s) if it is there, negative(s) if it is not.

p = sigmoid(s). Logarithms of probabilities are softplus of the logit, and a power p^g is exp(g log p), which has a slope
at every logit (sigmoid ** 0.5 has none where the sigmoid has underflowed). So there is no epsilon anywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

from raretag.core.numerics import minus_log_not_p, minus_log_p
from raretag.core.parts import Score
from raretag.core.targets import Completed


class CrossEntropy(Score):
    """-log p and -log(1 - p)."""

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return minus_log_p(s)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return minus_log_not_p(s)


class Focal(Score):
    """-b (1 - p)^g log p and -b p^g log(1 - p). `detach_focus` lets no gradient through the powers."""

    def __init__(self, gamma: float, balance: float = 1.0, *, detach_focus: bool = False) -> None:
        super().__init__()
        self.gamma, self.balance, self.detach_focus = gamma, balance, detach_focus

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return self.balance * self._focus(minus_log_not_p(s)) * minus_log_p(s)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return self.balance * self._focus(minus_log_p(s)) * minus_log_not_p(s)

    def _focus(self, minus_log: Tensor) -> Tensor:
        focus = torch.exp(-self.gamma * minus_log)
        return focus.detach() if self.detach_focus else focus
