r"""Correction, modification, balance (COMIC).

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels", ICCV 2023, arXiv:2304.10539.

Paper and code::

    z_h, z_t, z_b   outputs         logits of three branches (models/branches/head_tail.py)     [B, 3, C]
    L_mfm           objective       multi_focal
    L_rlc           corrector       reflective_correction over multi_focal
    phi             softmax over labels
    kappa           kappas          how much each teacher counts            [2]
    alpha           power

    (1)   L = lambda_c L_rlc(z_b) + lambda_m (L_mfm(z_b) + L_mfm(z_h) + L_mfm(z_t)) + lambda_h L_htb
    (11)  L_htb = kappa_h L_mfm(phi(z_h) phi(z_b)) + kappa_t L_mfm(phi(z_t) phi(z_b))
          kappa_h = L_mfm(z_h)^alpha / (L_mfm(z_h)^alpha + L_mfm(z_t)^alpha),   kappa_t = 1 - kappa_h

Table 2: correction, modification, balance = False. Without balance the model has one branch, without modification L is
binary cross entropy. Table 4: positive_negative, head_tail = False. Table 5: distribution of L_rlc. Table 1, "Head
Model" and "Tail Model": predict. Figure 3: power, tau. Figure 4: base.

Reduces to:
    lambda_m times multi_focal with one branch (`--set branches.name=single`) and correction = balance = False.
    With one branch and balance, L_htb = L_mfm(phi(z_b)): a control without teachers, to compare the balancer with.

Departs from the paper:
    the head and tail branches learn from L_mfm of their own logits, which (1) leaves open.
    phi phi is read as a probability, within [1e-8, 1 - 1e-6]; product="logits" reads it as a logit, as the code does,
    and then the branch learns hardly anything from it. No gradient flows to the teachers or through kappa.
    multi_focal and reflective_correction list their own departures.

Departs from the authors' code:
    (11) is in the code but switched off. All branches see the same items. L_htb has weight .5, as in their test file.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from math import log
from typing import Any, Literal

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.context import NO_CONTEXT, Context
from raretag.core.errors import UserError
from raretag.core.method import Base, Method, build_base, build_method
from raretag.core.numerics import in_full_precision, log_softmax
from raretag.core.targets import LabelStatistics, Targets
from raretag.objective.reductions import Per

Scale = Literal["none", "corrected", "positives"]  # of reflective_correction
BRANCHES = ("head", "tail", "balanced")
LEAST, MOST = log(1e-8), log(1 - 1e-6)  # of the logarithm of a product


class Comic(Method):
    """Correction of missing labels, modified focal loss and a balance of head and tail branches.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0, float("nan")]])
    >>> statistics = raretag.LabelStatistics.of_counts([30, 5, 60], items=100)
    >>> loss = raretag.methods.Comic(statistics, items=100, balance=False)
    >>> context = raretag.Context(index=torch.tensor([7]), epochs=10)
    >>> print(f"{loss(torch.tensor([[0.5, -1.0, 2.0]]), targets, context):.4f}")
    0.5284
    """

    head = "normalised"
    branches = "head_tail"
    kappas: Tensor
    spent: Tensor

    def __init__(
        self,
        statistics: LabelStatistics,
        items: int,
        seed: int = 0,
        *,
        correction: bool = True,
        modification: bool = True,
        balance: bool = True,
        positive_negative: bool = True,
        head_tail: bool = True,
        distribution: Literal["static", "dynamic"] = "dynamic",
        base: Base = "multi_focal",
        lambda_c: float = 0.2,
        lambda_m: float = 1.0,
        lambda_h: float = 0.5,
        tau: float = 0.7,
        warm_up: float = 0.1,
        cap: float | None = 1.0,
        scale: Scale = "none",
        product: Literal["probabilities", "logits"] = "probabilities",
        power: float = 2.0,
        predict: Literal["balanced", "head", "tail", "mean"] = "balanced",
        reduce: Per = "entries",
    ) -> None:
        if min(lambda_c, lambda_m, lambda_h, power) < 0:
            raise UserError("comic: lambda_c, lambda_m, lambda_h and power must be 0 or more, one is negative")
        loss: Base = base
        if not modification:
            loss = {"name": "assume_negative", "reduce": reduce}
        elif isinstance(base, (str, Mapping)):
            loss = {"reduce": reduce, **({"name": base} if isinstance(base, str) else base)}
        is_multi_focal = isinstance(loss, Mapping) and loss.get("name") == "multi_focal"
        if isinstance(loss, Mapping) and is_multi_focal:
            loss = {**without(positive_negative, head_tail), **loss}
        elif modification and not (positive_negative and head_tail):
            raise UserError(f"comic: positive_negative and head_tail are of multi_focal, but base is {base!r}")
        below = build_base("comic", loss, statistics, items=items, seed=seed)
        super().__init__(below.objective)
        self.corrector: Method | None = None
        if correction:
            if isinstance(loss, Mapping) and is_multi_focal:
                loss = {"distribution": distribution, **loss}
            elif isinstance(loss, Method):
                loss = deepcopy(loss)  # the corrector completes labels in its own way, and has a state of its own
            options: dict[str, Any] = {"base": loss, "tau": tau, "warm_up": warm_up, "cap": cap, "scale": scale}
            self.corrector = build_method("reflective_correction", statistics, items=items, seed=seed, **options)
        if not balance:
            self.branches = "single"
        self.balance, self.lambdas, self.product, self.power = balance, (lambda_c, lambda_m, lambda_h), product, power
        self.predict = predict
        self.register_buffer("kappas", torch.full((2,), 0.5, dtype=torch.float64))
        self.register_buffer("spent", torch.zeros(4, dtype=torch.float64))  # L of each branch and steps, in the epoch
        self.means: dict[str, float] = {}  # L of each branch in the last finished epoch

    def logits(self, outputs: Tensor) -> Tensor:
        if outputs.dim() == 2:  # a model with one branch
            return outputs
        return outputs.mean(1) if self.predict == "mean" else outputs[:, BRANCHES.index(self.predict)]

    def branch_logits(self, outputs: Tensor) -> dict[str, Tensor]:
        return dict(zip(BRANCHES, outputs.unbind(1), strict=True)) if outputs.dim() == 3 else {}

    def loss(self, outputs: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        *teachers, z = in_full_precision(outputs).unbind(1) if outputs.dim() == 3 else (in_full_precision(outputs),)
        lambda_c, lambda_m, lambda_h = self.lambdas
        losses = [self.objective(logits, targets, context) for logits in (*teachers, z)]
        value: Tensor = lambda_m * torch.stack(losses).sum()  # (1)
        if self.corrector is not None:
            value = value + lambda_c * self.corrector.objective(z, targets, context)
        if self.balance:
            value = value + lambda_h * self.distillation(z, teachers, losses, targets, context)
        if self.training and context.learning:
            with torch.no_grad():
                self.observe(z.detach(), targets, context)
                if teachers:
                    prices = processes.total(torch.stack(losses)) / processes.count()
                    # labels may pass in blocks, each with its share of the losses; a step is counted once
                    self.spent += torch.cat([prices, prices.new_full((1,), float(context.first))])
        return value

    forward = loss  # type: ignore[assignment]  # takes all branches, not only logits

    def distillation(
        self, z: Tensor, teachers: list[Tensor], losses: list[Tensor], targets: Targets, context: Context
    ) -> Tensor:
        """(11). `losses` of the teachers come first."""
        if not teachers:
            return self.objective(self._as_logits(log_softmax(z, context)), targets, context)  # type: ignore[no-any-return]
        shares = torch.stack(losses[: len(teachers)]).detach()
        prices = processes.total(context.total(shares, after=True)) / processes.count()
        smallest = torch.finfo(prices.dtype).tiny
        kappas = torch.softmax(self.power * torch.log(prices.clamp(min=smallest)), 0)  # = L^alpha / sum of L^alpha
        if self.training and context.learning:
            self.kappas.copy_(kappas)
        value = z.new_zeros(())
        for kappa, teacher in zip(kappas, teachers, strict=True):
            both = log_softmax(teacher.detach(), context) + log_softmax(z, context)
            value = value + kappa * self.objective(self._as_logits(both), targets, context)
        return value

    def _as_logits(self, log_product: Tensor) -> Tensor:
        """What the loss takes, of the logarithm of a product of softmaxes."""
        if self.product == "logits":
            return log_product.exp()
        within = log_product.clamp(LEAST, MOST)
        return within - torch.log1p(-within.exp())

    def observe(self, logits: Tensor, targets: Targets, context: Context) -> None:
        super().observe(logits, targets, context)
        if self.corrector is not None:
            self.corrector.observe(logits, targets, context)

    def end_epoch(self, context: Context) -> None:
        super().end_epoch(context)
        if self.corrector is not None:
            self.corrector.end_epoch(context)
        *totals, steps = self.spent.tolist()
        self.means = {f"loss_{branch}": total / steps for branch, total in zip(BRANCHES, totals, strict=True) if steps}
        self.spent.zero_()

    def vital_signs(self) -> dict[str, float]:
        signs = super().vital_signs()
        if self.corrector is not None:
            signs |= self.corrector.vital_signs()
        if self.balance:
            signs |= {"kappa_head": float(self.kappas[0]), "kappa_tail": float(self.kappas[1])}
        return signs | self.means

    def label_signs(self) -> dict[str, Tensor]:
        signs = super().label_signs()
        return signs if self.corrector is None else signs | self.corrector.label_signs()

    def found_missing(self, outputs: Tensor, targets: Targets, context: Context = NO_CONTEXT) -> Tensor:
        z = outputs[:, -1] if outputs.dim() == 3 else outputs
        return (
            super().found_missing(z, targets, context)
            if self.corrector is None
            else self.corrector.found_missing(z, targets, context)
        )


def without(positive_negative: bool, head_tail: bool) -> dict[str, float]:
    """Options of multi_focal for the factors that are switched off."""
    none: dict[str, float] = {}
    if not positive_negative:
        none |= {"gamma_pos": 0.0, "gamma_neg": 0.0}
    if not head_tail:
        none |= {"head_tail_pos": 0.0, "head_tail_neg": 0.0}
    return none
