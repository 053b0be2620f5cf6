r"""Several small networks that are trained side by side on feature vectors, each on items of its own.

For member m, an item x with labels y and weights s, and a partner x', y', s' from the same batch (Zhang et al.,
"mixup: Beyond Empirical Risk Minimization", ICLR 2018)::

    l  = max(q, 1 - q),  q ~ Beta(a, a)
    z  = V_m dropout(relu(U_m (l x + (1 - l) x') + u_m)) + v_m
    L  = mean( (l s y + (1 - l) s' y') log(1 + exp(-z)) + (l s (1 - y) + (1 - l) s' (1 - y')) log(1 + exp(z)) )

The mean of their logits is the output of one network that has all their hidden units, so a committee is as cheap to
store and to run as one wide network.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, softplus

from raretag.core.listener import SILENT, Listener
from raretag.solvers.learners import dense_rows

FEWEST_STEPS = 200  # of a small data set, whose epochs are short
UNLIKELY = -5.0  # first bias of a label without positives


@dataclass(frozen=True)
class Schedule:
    epochs: int = 30
    batch_size: int = 128
    rate: float = 2e-3  # at its peak, after a tenth of the steps; it ends at 0 along a cosine
    decay: float = 1e-4
    dropout: float = 0.3
    mixup: float = 0.4  # a; 0: items are not mixed

    def steps(self, items: int) -> int:
        return max(FEWEST_STEPS, self.epochs * (items // self.batch_size))

    def factor(self, step: int, steps: int) -> float:
        return min(1.0, (step + 1) / (0.1 * steps)) * 0.5 * (1 + cos(pi * step / steps))


@dataclass(frozen=True)
class Network:
    """z = V relu(U x + u) + v."""

    hidden: Tensor  # U [H, D]
    hidden_bias: Tensor  # u [H]
    classify: Tensor  # V [C, H]
    bias: Tensor  # v [C]

    def __call__(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.hidden.T + self.hidden_bias) @ self.classify.T + self.bias


def log_odds(positive: Tensor, weight: Tensor) -> Tensor:
    """[C] of the two sides of a label as they are weighted: the bias at which the loss of a constant is least."""
    sides = torch.stack([(weight * positive).sum(0), (weight * (1 - positive)).sum(0)])
    return torch.where((sides > 0).all(0), sides.clamp(min=1e-12).log().diff(dim=0)[0].neg(), UNLIKELY)


def trained(
    x: Any,
    positive: Tensor,
    weight: Tensor,
    members: int,
    width: int,
    schedule: Schedule,
    listener: Listener = SILENT,
) -> Network:
    """x [N, D], dense or sparse; positive, weight [N, C]. All draws are torch's own: seed it before.

    The `listener` gets the share of the steps that is done.
    """
    items, size = x.shape
    labels = positive.shape[1]
    filled = float((x != 0).sum()) / max(float((x * x).sum()), 1e-12)
    stretch = sqrt(filled)  # what is not 0 gets a mean square of 1, whatever the length of the rows
    u = (torch.empty(members, size, width).uniform_(-1, 1) / sqrt(size)).requires_grad_()
    u_bias = torch.zeros(members, 1, width, requires_grad=True)
    v = (torch.empty(members, width, labels).uniform_(-1, 1) / sqrt(width)).requires_grad_()
    v_bias = log_odds(positive, weight).repeat(members, 1, 1).requires_grad_()
    optimizer = torch.optim.AdamW([u, u_bias, v, v_bias], schedule.rate, weight_decay=schedule.decay, fused=True)
    beta = torch.distributions.Beta(schedule.mixup, schedule.mixup) if schedule.mixup else None
    batch, steps = min(schedule.batch_size, items), schedule.steps(items)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate * schedule.factor(step, steps)
        rows = torch.randint(items, (members * batch,))
        inputs = stretch * dense_rows(x, rows).reshape(members, batch, size)
        y, s = (part[rows].reshape(members, batch, labels) for part in (positive, weight))
        share = torch.ones(()) if beta is None else beta.sample((members, batch, 1))
        share, partner = torch.maximum(share, 1 - share), torch.randperm(batch)

        def mixed(part: Tensor, share: Tensor = share, partner: Tensor = partner) -> Tensor:
            return share * part + (1 - share) * part[:, partner]

        hidden = torch.relu(torch.baddbmm(u_bias, mixed(inputs), u))
        z = torch.baddbmm(v_bias, dropout(hidden, schedule.dropout), v)
        loss = (mixed(s) * softplus(z) - mixed(s * y) * z).mean()  # as log(1 + exp(-z)) = log(1 + exp(z)) - z
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        listener.progress((step + 1) / steps)
    with torch.no_grad():
        return Network(
            stretch * u.transpose(1, 2).reshape(-1, size),
            u_bias.reshape(-1),
            v.permute(2, 0, 1).reshape(labels, -1) / members,
            v_bias.mean((0, 1)),
        )
