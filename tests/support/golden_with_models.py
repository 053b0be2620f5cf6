"""The golden losses that need a part of a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from raretag.core.method import build_method
from raretag.core.objective import Objective
from raretag.core.parts import Score
from raretag.core.targets import Completed, LabelStatistics, Targets
from raretag.models.heads.plain import Scaled
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import Sum

Result = tuple[float, list[list[float]]]


def tensor(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def inputs(golden: dict[str, Any]) -> tuple[Tensor, Targets, LabelStatistics]:
    about = golden["_about"]
    full = tensor(about["labels_full"])
    statistics = LabelStatistics.of_counts([int(n) for n in about["class_freq"]], int(about["num_train"]))
    return tensor(about["logits"]).requires_grad_(), Targets(full, torch.ones_like(full).bool()), statistics


def learned_scales(golden: dict[str, Any]) -> tuple[Result, Tensor]:
    """The loss of (W x + b) s, its gradient to W x + b, and to s."""
    logits, targets, statistics = inputs(golden)
    head = Scaled(5, 5).double()
    with torch.no_grad():
        head.classify.weight.copy_(torch.eye(5))
        head.classify.bias.zero_()
        head.scale.copy_(tensor(golden["losses"]["lws_bce_mean"]["params"]["scales"]))
    loss = build_method("lws", statistics, items=statistics.items).loss(head(logits), targets)
    slope, slope_of_scale = torch.autograd.grad(loss, [logits, head.scale])
    return (loss.item(), slope.tolist()), slope_of_scale


def three_branches(golden: dict[str, Any]) -> Result:
    """The balancer of the authors' code: its product is a logit, and its loss has a factor that is in no paper."""
    balanced, targets, statistics = inputs(golden)
    given = golden["losses"]["comic_htb_code"]["params"]
    method = build_method(
        "comic", statistics, items=statistics.items, correction=False, product="logits", lambda_m=0.0, lambda_h=1.0
    )
    pairs = tensor(golden["losses"]["comic_pfm_code_sum"]["co_occurrence_raw"])
    score = CodeScore(statistics.positives.double(), pairs)
    method.objective = Objective(complete=UnknownIsNegative(), score=score, reduce=Sum())
    branches = torch.stack([tensor(given["head_logits"]), tensor(given["tail_logits"]), balanced], dim=1)
    loss = method.loss(branches, targets)
    (gradient,) = torch.autograd.grad(loss, balanced)
    return loss.item(), gradient.tolist()


class CodeScore(Score):
    """p of positives times 1 - a, 1 - p of negatives times 1.2, where a says which labels come with the row's."""

    def __init__(self, positives: Tensor, pairs: Tensor) -> None:
        super().__init__()
        self.weight = (1 - torch.log(positives / positives.max())) ** (1 / 3)
        self.pairs = pairs / pairs.sum(0)

    def related(self, completed: Completed) -> Tensor:
        a = completed.value @ self.pairs / completed.value.sum(1, keepdim=True)
        return a / a.sum(1, keepdim=True)

    def positive(self, s: Tensor, completed: Completed) -> Tensor:
        return -self.weight * torch.log(torch.sigmoid(s) * (1 - self.related(completed)))

    def negative(self, s: Tensor, completed: Completed) -> Tensor:
        q = (torch.sigmoid(-s) + 0.05).clamp(max=1.0)
        q = torch.where(self.related(completed) != 0, 1.2 * q, q)
        focus = (1 - q).clamp(min=0.0) ** (3 + self.weight)
        return -self.weight * focus.detach() * torch.log(q.clamp(min=1e-8))
