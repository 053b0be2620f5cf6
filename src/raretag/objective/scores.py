"""The price of one label, as a function of its (shaped) logit s: positive(s) if it is there, negative(s) if it is not.

p = sigmoid(s). Logarithms of probabilities are softplus of the logit, and a power p^g is exp(g log p), which has a
slope at every logit (sigmoid ** 0.5 has none where the sigmoid has underflowed). So there is no epsilon anywhere.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from raretag.core import processes
from raretag.core.errors import UserError
from raretag.core.numerics import Logistic, Price, logarithm, minus_log_not_p, minus_log_p, power, under_compiler, whole
from raretag.core.parts import Score
from raretag.core.targets import Completed, either, zero_outside

ScoreName = Literal["bce", "focal"]


class CrossEntropy(Score):
    """-log p and -log(1 - p)."""

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return minus_log_p(s)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return minus_log_not_p(s)

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        return Price(positive.minus_log_p, -positive.q), Price(negative.minus_log_q, negative.p)

    def against(self, x: Logistic, completed: Completed) -> Price:
        return Price(x.minus_log_q, x.p)

    def mixed(self, x: Logistic, completed: Completed) -> Price:
        """log(1 + e^s) - t s, and p - t."""
        t = completed.value
        if under_compiler():
            return Price(x.minus_log_q - t * x.s, x.p - t)
        return Price(torch.addcmul(logsigmoid(-x.s), t, x.s).neg_(), x.p - t)


class Focal(Score):
    """-b (1 - p)^g log p and -b p^g log(1 - p). `detach_focus` lets no gradient through the powers."""

    def __init__(self, gamma: float, balance: float = 1.0, *, detach_focus: bool = False) -> None:
        super().__init__()
        if gamma < 0:
            raise UserError(f"gamma is a focusing power and must be 0 or more, got {gamma}")
        self.gamma, self.balance, self.detach_focus = gamma, balance, detach_focus

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return self.balance * focused_positive(s, self.gamma, self.detach_focus)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return self.balance * focused_negative(s, self.gamma, 0.0, self.detach_focus)

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        return (
            focused_positive_price(positive, self.gamma, self.detach_focus).times(self.balance),
            focused_negative_price(negative, self.gamma, 0.0, self.detach_focus).times(self.balance),
        )

    def against(self, x: Logistic, completed: Completed) -> Price:
        return focused_negative_price(x, self.gamma, 0.0, self.detach_focus).times(self.balance)


class Asymmetric(Score):
    """-(1 - p)^{g+} log p and -p_m^{g-} log(1 - p_m), p_m = max(p - m, 0): ASL, eq. (5) and (7)."""

    def __init__(self, gamma_pos: float, gamma_neg: float, margin: float, *, detach_focus: bool = False) -> None:
        super().__init__()
        if min(gamma_pos, gamma_neg) < 0:
            raise UserError(f"gamma_pos and gamma_neg are powers and must be 0 or more, got {gamma_pos}, {gamma_neg}")
        if not 0 <= margin < 1:
            raise UserError(f"margin is a shift of probability and must lie in [0, 1), got {margin}")
        self.gamma_pos, self.gamma_neg, self.margin, self.detach_focus = gamma_pos, gamma_neg, margin, detach_focus

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return focused_positive(s, self.gamma_pos, self.detach_focus)

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        return focused_negative(s, self.gamma_neg, self.margin, self.detach_focus)

    def prices(self, positive: Logistic, negative: Logistic, completed: Completed) -> tuple[Price, Price]:
        return (
            focused_positive_price(positive, self.gamma_pos, self.detach_focus),
            focused_negative_price(negative, self.gamma_neg, self.margin, self.detach_focus),
        )


def focused_positive(s: Tensor, gamma: float | Tensor, detach_focus: bool = False) -> Tensor:
    """-(1 - p)^gamma log p."""
    focus = torch.exp(-gamma * minus_log_not_p(s))
    return (focus.detach() if detach_focus else focus) * minus_log_p(s)


def focused_negative(s: Tensor, gamma: float | Tensor, margin: float = 0.0, detach_focus: bool = False) -> Tensor:
    """-p_m^gamma log(1 - p_m), p_m = max(p - margin, 0)."""
    if margin:
        # The smallest number instead of 0 gives powers below 1 a slope; the logarithm beside it is exactly 0 there.
        focus = (torch.sigmoid(s) - margin).clamp(min=torch.finfo(s.dtype).tiny) ** gamma
        price = -torch.log((torch.sigmoid(-s) + margin).clamp(max=1.0))  # 1 - p_m is margin at least
    else:
        focus, price = torch.exp(-gamma * minus_log_p(s)), minus_log_not_p(s)
    return (focus.detach() if detach_focus else focus) * price


def focused_positive_price(x: Logistic, gamma: float | Tensor, detach_focus: bool = False) -> Price:
    """`focused_positive` with its slope: d(1 - p)/ds = -p (1 - p), d(-log p)/ds = -(1 - p)."""
    price = x.minus_log_p
    if no_power(gamma):
        return Price(price, -x.q)
    focus = power(x.q, gamma, None if whole(gamma) else x.minus_log_q)
    value, slope = focus * price, focus * x.q
    return Price(value, -slope if detach_focus else -more(slope, x.p, value, gamma))


def focused_negative_price(
    x: Logistic, gamma: float | Tensor, margin: float = 0.0, detach_focus: bool = False
) -> Price:
    """`focused_negative` with its slope: dp_m/ds = p (1 - p) above the margin and 0 below."""
    if not margin:
        price = x.minus_log_q
        if no_power(gamma):
            return Price(price, x.p)
        focus = power(x.p, gamma, None if whole(gamma) else x.minus_log_p)
        value, slope = focus * price, focus * x.p
        return Price(value, slope if detach_focus else more(slope, x.q, value, gamma))
    above, rest, moves = x.p - margin, x.q + margin, x.p * x.q  # p_m and 1 - p_m where p > margin; dp/ds
    price = -logarithm(rest.clamp(max=1.0))
    if whole(gamma) and gamma >= 1:  # powers that are 0 at 0, so nothing has to be cut off below the margin
        shifted = above.clamp(min=0.0)
        before = power(shifted, gamma - 1)
        focus = before * shifted
        slope = focus / rest if detach_focus else more(focus / rest, before, price, gamma)
        return Price(focus * price, slope * moves)
    smallest = torch.finfo(x.p.dtype).tiny
    price_slope = zero_outside(moves / rest, rest <= 1.0)
    if no_power(gamma):
        return Price(price, price_slope)
    shifted = above.clamp(min=smallest)
    before = power(shifted, gamma - 1)
    focus = before * shifted
    slope = focus * price_slope
    if not detach_focus:
        slope = slope + zero_outside(gamma * before * price * moves, above >= smallest)
    return Price(focus * price, slope)


def more(a: Tensor, b: Tensor, c: Tensor, factor: float | Tensor) -> Tensor:
    """a + factor b c."""
    return a + factor * b * c if isinstance(factor, Tensor) else torch.addcmul(a, b, c, value=factor)


def no_power(gamma: float | Tensor) -> bool:
    return not isinstance(gamma, Tensor) and gamma == 0


def score(name: ScoreName, gamma: float, balance: float) -> Score:
    """The options `score`, `gamma` and `balance` of the methods that weigh one or the other."""
    return CrossEntropy() if name == "bce" else Focal(gamma, balance)


class BatchBalance(Score):
    """alpha on the positive side, beta on the negative side, by the share of positives (Zhang et al., 2023, eq. 8)."""

    def __init__(self, balance: str | float, on: str, total: str, gamma: float) -> None:
        super().__init__()
        self.balance, self.on, self.total, self.gamma = balance, on, total, gamma
        self.whole_batch = balance == "batch"

    def beta(self, completed: Completed) -> Tensor:
        """[B, C] or one number."""
        value = completed.value
        beta = self.of_counts(*(self._of_batch(completed) if self.balance == "batch" else (value, value)))
        return beta if self.on == "all" else either(completed.observed, beta, 0.5)

    def _of_batch(self, completed: Completed) -> tuple[Tensor, Tensor]:
        value, observed, context = completed.value, completed.observed, completed.context
        P = context.total(zero_outside(value, observed).sum())
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
