r"""Balanced logistic regression and a committee of networks, added up to one network with a skip connection. Ours.

No paper. It consists of: logistic_regression.py; mixup (Zhang et al., ICLR 2018); the mean of networks that differ
only in their draws (Lakshminarayanan et al., NeurIPS 2017), which for one hidden layer is again a network.

Paper and code::

    n_c        observed positives of label c;   x  features;   y, s  label and weight of an entry
    r          solved logistic regression,  r_c(x) = w_c x + b_c  (strength by held-out folds)
    m          mean of the logits of one half of the members (solvers/members.py), trained with the same weights
    k          that of the other half, trained with s = 1, less the log odds of each label: 0 is then the boundary that
               weights would have given
    o, q, p    spread (standard deviation over training items) of r_c, m_c and k_c

    1.  counted: what is observed. If a label has no typical observed negative, its unknown entries are negatives too,
        except the `forgive` n_c of them (no more than half) that r, fitted without them, scores highest.
    2.  s = N / (2 n) on either side of a label, over what is counted
    3.  z_c = (o + q + p) / 9 (r_c / o + m_c / q + k_c / p)         all with the same spread, then their mean;
            = (q + p) / 4 (m_c / q + k_c / p)                       with ten items per column (ENOUGH), where more
                                                                    items help networks, not the regression

A label without positives keeps the low bias of logistic regression. `skip` decides whether r is in step 3, however many
items there are; `weights` leaves out one half of the members.

Reduces to:
    logistic_regression if nothing is unknown and `members` is 0.

Departs from the paper:
    none to depart from.

Departs from the authors' code:
    none to depart from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.listener import Listener, Part
from raretag.core.solver import Features, Solver
from raretag.models.heads.plain import WithSkip
from raretag.solvers.learners import dense_rows, gathered
from raretag.solvers.members import Schedule, log_odds, trained
from raretag.solvers.newton import Products, loss_weights, without_typical_negatives
from raretag.solvers.regression import Tried, choose, solved

REGRESSION = 0.1  # of the time, more or less
ENOUGH = 10  # training items for each column of the features


class Committee(Solver):
    head = "with_skip"
    takes_sparse = True

    def __init__(
        self,
        *,
        members: int = 8,
        weights: Literal["both", "balanced", "plain"] = "both",
        skip: bool | None = None,
        epochs: int = 30,
        mixup: float = 0.4,
        forgive: float = 1.0,
        folds: int = 3,
        seed: int = 0,
    ) -> None:
        fewest = 1 if skip is False else 0
        halves = weights == "both" and members % 2
        if members < fewest or halves or epochs < 1 or mixup < 0 or forgive < 0 or folds < 2:
            raise UserError(
                f"members={members}, epochs={epochs}, mixup={mixup}, forgive={forgive}, folds={folds}; committee needs "
                f"members >= {fewest} (an even number with weights=both), epochs >= 1, mixup >= 0, forgive >= 0 and "
                "folds >= 2"
            )
        self.members, self.skip, self.forgive, self.folds, self.seed = members, skip, forgive, folds, seed
        self.kinds = ("balanced", "plain") if weights == "both" else (weights,)
        self.schedule = Schedule(epochs=epochs, mixup=mixup)
        self.tried: Tried = {}

    def solve(self, features: Features, head: nn.Module, listener: Listener) -> None:
        if not isinstance(head, WithSkip) or (self.members and head.hidden.out_features % self.members):
            raise UserError(
                f"committee fills the head 'with_skip', of a width that its {self.members} members can share equally; "
                "leave head.name and branches.name alone"
            )
        x, found, observed = gathered(features())
        positive = found.float()
        assumed = without_typical_negatives(Products(x), found, observed)  # [C]
        regression = Part(listener, 0.0, REGRESSION)
        choice = choose(x, positive, self.folds, self.seed, observed | assumed, regression)
        self.tried = choice.tried
        forgiven = torch.minimum(self.forgive * positive.sum(0), (~observed).sum(0) / 2) * assumed
        likely = highest(choice.held_out, ~observed, forgiven)
        counted = observed | (assumed & ~likely)  # step 1
        theta = solved(x, positive, choice.strength, counted=counted)
        with torch.no_grad():
            for part in head.parameters():
                part.zero_()
            head.skip.weight.copy_(theta[:, :-1])
            head.classify.bias.copy_(theta[:, -1])
            if self.members:
                self.add_members(head, theta, x, positive, loss_weights(positive, counted), listener)  # step 2

    def add_members(
        self, head: WithSkip, theta: Tensor, x: Any, positive: Tensor, balanced: Tensor, listener: Listener
    ) -> None:
        width, count = head.hidden.out_features // self.members, self.members // len(self.kinds)
        weights = {"balanced": balanced, "plain": (balanced > 0).to(balanced)}
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(chance.number(self.seed, 11) % 2**63)
            halves = [
                trained(x, positive, weights[kind], count, width, self.schedule, Part(listener, *self.share_of(done)))
                for done, kind in enumerate(self.kinds)
            ]
        spreads = spread(x, len(positive), [lambda block: block @ theta[:, :-1].T, *halves])  # [1 + halves, C]
        used = (spreads > 0) & (balanced > 0).any(0)  # [1 + halves, C] what is added up
        used[0] &= len(positive) < ENOUGH * x.shape[1] if self.skip is None else self.skip
        shares = used * (used * spreads).sum(0) / used.sum(0).clamp(min=1) ** 2 / spreads.clamp(min=1e-12)  # step 3
        shares[0, ~used.any(0)] = 1.0  # nobody has learned anything: the bias of r
        regression, *of_halves = shares
        rows = [share[:, None] * half.classify for share, half in zip(of_halves, halves, strict=True)]
        bias = regression * theta[:, -1]
        for share, half, kind in zip(of_halves, halves, self.kinds, strict=True):
            bias += share * (half.bias - log_odds(positive, weights[kind]))
        head.skip.weight.copy_(regression[:, None] * theta[:, :-1])
        head.hidden.weight.copy_(torch.cat([half.hidden for half in halves]))
        head.hidden.bias.copy_(torch.cat([half.hidden_bias for half in halves]))
        head.classify.weight.copy_(torch.cat(rows, 1))
        head.classify.bias.copy_(bias)

    def share_of(self, half: int) -> tuple[float, float]:
        """Where the training of a half begins and ends, in the time of the whole."""
        each = (1 - REGRESSION) / len(self.kinds)
        return REGRESSION + half * each, REGRESSION + (half + 1) * each

    def vital_signs(self) -> dict[str, float]:
        return {}

    def learned(self) -> dict[str, Any]:
        return {"held_out_mAP": self.tried}


def spread(x: Any, items: int, models: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """[models, C] standard deviation of the logits of each model over the items."""
    logits: list[list[Tensor]] = [[] for _ in models]
    for start in range(0, items, 4096):
        block = dense_rows(x, torch.arange(start, min(start + 4096, items)))
        for model, parts in zip(models, logits, strict=True):
            parts.append(model(block))
    return torch.stack([torch.cat(parts).std(0) for parts in logits])


def highest(z: Tensor, among: Tensor, count: Tensor) -> Tensor:
    """[N, C] bool: the `count` [C] highest of each column of z, of those that are `among`."""
    if not count.any():
        return torch.zeros_like(among)
    order = torch.where(among, z, -torch.inf).argsort(dim=0, descending=True, stable=True)
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(z))[:, None].expand_as(order))
    return among & (place < count)
