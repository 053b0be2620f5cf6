r"""Regularised online label estimation (ROLE).

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021, arXiv:2106.09708.

Paper and code::

    z, p     logits, p              of the network                          [B, C]
    theta, e theta, belief          of the label estimator: one logit for each item and label [N, C], learned
    k        expected               labels that an item has on average

    (1)  L(p | e) = [observed y] H(p, y) / 2 + H(p, e) / 2,   H(p, t) = -t log p - (1 - t) log(1 - p),  e held fixed
    (2)  L = mean over B C of L(p | e) + L(e | p)
    (3)      + (R(p) + R(e)) / 2,   R(p) = ((sum over items and labels of p / B - k) / C)^2

The equation numbers are ours. Both halves of (2) are one objective over 2 B rows: the rows of z on top of the rows of
theta, each half completed by the predictions of the other. H(p, y) + H(p, e) is 2 H(p, (y + e) / 2).

theta starts at logit .995 for an observed positive, -logit .995 for an observed negative, and logit(.6) u with u
uniform in (-1, 1) for an unknown label; u is a hash of (seed, item, label). What is learned and saved is the distance
of theta from its start, so the start needs neither the labels in advance nor communication between processes. For an
optimiser without weight decay this makes no difference.

The estimator learns with `learning_rate_factor` times the learning rate of the network: `parameter_groups`.

Reduces to:
    none.

Departs from the paper:
    k is the number of observed positives per item unless given (see expected_positive).
    An observed negative counts as such; the paper has none.

Departs from the authors' code:
    -log p is softplus(-z), not -log(p + 1e-5). Means are over the batch of all processes.
"""

from __future__ import annotations

from math import log
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from raretag.core import chance, processes
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.numerics import in_full_precision
from raretag.core.objective import Objective
from raretag.core.parts import Complete, Weigh
from raretag.core.targets import Completed, LabelStatistics, Targets, either, everywhere
from raretag.objective.reductions import Per, expected_count_penalty, reduction
from raretag.objective.scores import CrossEntropy

SURE = log(0.995 / 0.005)
UNSURE = log(0.6 / 0.4)


class Role(Method):
    """Learns the unknown labels together with the network: pass its parameters to the optimizer.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.Role(statistics, items=100)
    >>> context = raretag.Context(index=torch.tensor([7]), epochs=10)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets, context):.4f}")
    1.2231
    """

    learning_rate_factor: ClassVar[float] = 10.0  # of the estimator, in the paper's experiments
    expected: Tensor

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        seed: int = 0,
        *,
        expected: float | None = None,
        reduce: Per = "entries",
    ) -> None:
        if expected is not None and expected < 0:
            raise UserError(f"role.expected is a number of labels and must be 0 or more, got {expected}")
        super().__init__(
            Objective(complete=OtherHalf(), weigh=ObservedTwice(), score=CrossEntropy(), reduce=reduction(reduce))
        )
        observed = statistics.positives.sum().double() / max(1, items)
        self.register_buffer("expected", observed if expected is None else torch.tensor(expected, dtype=torch.float64))
        self.estimator = Estimator(items, statistics.labels, seed)

    def parameter_groups(self, learning_rate: float) -> list[dict[str, Any]]:
        """What an optimiser needs to know of the estimator. Weight decay would pull it back to its start."""
        rate = self.learning_rate_factor * learning_rate
        return [{"params": [self.estimator.moved], "lr": rate, "weight_decay": 0.0}]

    def loss(self, logits: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        z = in_full_precision(logits)
        theta = self.estimator(targets, context).to(z.dtype)  # [B, C]
        both = Targets(targets.value.repeat(2, 1), targets.observed.repeat(2, 1))
        beliefs = super().loss(torch.cat([z, theta]), both, context)
        p, e = torch.sigmoid(z), torch.sigmoid(theta)
        return beliefs + (expected_count_penalty(p, self.expected) + expected_count_penalty(e, self.expected)) / 2.0

    forward = loss

    def vital_signs(self) -> dict[str, float]:
        return {"estimator_moved": float(self.estimator.moved.detach().abs().mean())}


class Estimator(nn.Module):
    """theta, as its start plus what was learned."""

    def __init__(self, items: int, labels: int, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.moved = nn.Parameter(torch.zeros(items, labels))  # [N, C]

    def start(self, targets: Targets, context: Context) -> Tensor:
        item = context.items.to(targets.value.device)[:, None]
        label = torch.arange(targets.value.shape[1], device=targets.value.device)
        guess = UNSURE * (2.0 * chance.uniform(self.seed, item, label) - 1.0)
        return either(targets.observed, SURE * (2.0 * targets.positive - 1.0), guess)

    def forward(self, targets: Targets, context: Context) -> Tensor:
        moved: Tensor = self.moved
        if processes.count() > 1 and torch.is_grad_enabled():
            # An engine averages the gradients of the network, but may not know of these. Averaging twice does no harm.
            moved = moved.view_as(moved)
            moved.register_hook(average)
        return self.start(targets, context).to(moved.dtype) + moved[context.items.to(moved.device)]


def average(gradient: Tensor) -> Tensor:
    return processes.total(gradient) / processes.count()


class OtherHalf(Complete):
    """Each half of the rows is completed by the probabilities of the other half; an observed label by half."""

    whole_batch = True

    def forward(self, logits: Tensor, targets: Targets, context: Context) -> Completed:
        belief = torch.sigmoid(logits.detach().roll(len(logits) // 2, dims=0))
        value = either(targets.observed, (targets.positive + belief) / 2.0, belief)
        return Completed(value, everywhere(targets.observed), targets.observed)


class ObservedTwice(Weigh):
    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        return 1.0 + completed.observed.to(logits.dtype)
