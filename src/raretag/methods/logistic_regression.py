r"""Balanced logistic regression, one label against the rest: solved, not trained step by step.

Cox, "The Regression Analysis of Binary Sequences", 1958; balanced weights as scikit-learn's `class_weight="balanced"`.

Paper and code::

    n_c    positives of label c among N training items;  x  features;  K  strength, scikit-learn's C

    s = N / (2 n_c) where y = 1,  N / (2 (N - n_c)) where y = 0
    L_c = 1/2 |w_c|^2 + K sum s log(1 + exp(-(2y - 1)(w_c x + b_c)))

One K for all labels: the one with the best mean average precision on held-out folds of the training items, along a
path that ends when it fell twice. What is unknown counts as negative, in the loss and in that choice. A label without
positives gets a low bias and no weights.

Reduces to:
    scikit-learn's LogisticRegression(C=K, class_weight="balanced") of each label.

Departs from the paper:
    the weights; one K for all labels.

Departs from the authors' code:
    scikit-learn's OneVsRestClassifier miscounts in a uint8 label matrix of more than 255 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from raretag.core import chance, processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.parts import Weigh
from raretag.core.statistics import LabelStatistics
from raretag.core.targets import Completed, Targets
from raretag.objective import logistic, weights
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy

STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # times the mean of |x|^2: K if rows have length 1
_SPARSE = 0.2  # features of which no more are filled are kept as a sparse matrix


class Balanced(Weigh):
    """Both sides of a label weigh the same in the whole data set."""

    sides: Tensor

    def __init__(self, statistics: LabelStatistics) -> None:
        super().__init__()
        n, items = weights.counts(statistics), max(statistics.items, 2)
        self.register_buffer("sides", items / (2 * torch.stack([items - n, n])))  # [2, C]

    def forward(self, logits: Tensor, completed: Completed, context: Context) -> Tensor:
        negative, positive = context.of(self.sides).to(logits.dtype)
        weight: Tensor = negative + completed.value * (positive - negative)
        return weight


class LogisticRegression(Method):
    solves = True
    strength: Tensor
    found: Tensor

    def __init__(
        self,
        statistics: LabelStatistics,
        *,
        strength: float | None = None,
        folds: int = 3,
        reduce: Per = "entries",
        seed: int = 0,
    ) -> None:
        if folds < 2 or (strength is not None and strength <= 0):
            raise UserError(
                f"folds is {folds} and strength {strength}; expected 2 folds or more, and a strength above 0"
            )
        super().__init__(
            Objective(
                complete=UnknownIsNegative(),
                weigh=Balanced(statistics),
                score=CrossEntropy(),
                reduce=reduction(reduce),
            )
        )
        self.asked, self.folds, self.seed = strength, folds, seed
        self.register_buffer("strength", torch.tensor(float("nan")))
        self.register_buffer("found", torch.full((len(STRENGTHS),), float("nan")))  # mAP on held-out folds, 0 to 1

    def begin_stage(
        self, number: int, model: nn.Module, features: Callable[[], Iterator[tuple[Tensor, Targets]]]
    ) -> None:
        classify = next((part for part in model.get_submodule("head").modules() if isinstance(part, nn.Linear)), None)
        if classify is None:
            raise UserError("logistic_regression fills a linear classifier; leave head.name and branches.name alone")
        x, positive = gathered(features())
        strength = self.asked or self.chosen(x, positive)
        self.strength.fill_(strength)
        theta = solved(x, positive, strength)
        with torch.no_grad():
            classify.weight.copy_(theta[:, :-1])
            classify.bias.copy_(theta[:, -1])

    def chosen(self, x: Any, positive: Tensor) -> float:
        """The strength with the best held-out mean average precision."""
        fold = chance.permutation(len(positive), self.seed, 7) % self.folds  # [N]
        parts = [((fold != k).nonzero().flatten(), (fold == k).nonzero().flatten()) for k in range(self.folds)]
        starts: list[Tensor | None] = [None] * self.folds
        scale = len(positive) / max(float((x * x).sum()), 1e-12)
        for at, strength in enumerate(scale * one for one in STRENGTHS):
            z = torch.zeros_like(positive)
            for k, (rest, held) in enumerate(parts):
                starts[k] = theta = solved(_rows(x, rest), positive[rest], strength, starts[k], 1e-3)
                z[held] = logistic.Problem(_rows(x, held), positive[held], positive[:2], 1.0).logits(theta)
            self.found[at] = mean_precision(z, positive)
            known = self.found[: at + 1]
            if at >= 2 and known[-1] < known[-2] < known[-3]:
                break
        return scale * STRENGTHS[int(self.found.nan_to_num(-1.0).argmax())]

    def vital_signs(self) -> dict[str, float]:
        return {**super().vital_signs(), "strength": float(self.strength)}

    def learned(self) -> dict[str, Any]:
        tried = {f"{k:g}": float(v) for k, v in zip(STRENGTHS, self.found, strict=True) if not v.isnan()}
        return {"strength": float(self.strength), "held_out_mAP": tried}


def solved(x: Any, positive: Tensor, strength: float, start: Tensor | None = None, tolerance: float = 1e-4) -> Tensor:
    """theta [C, D + 1] of all labels; one that has no positives, or nothing else, gets its frequency as bias."""
    weight = logistic.balanced(positive)
    theta = logistic.solve(logistic.Problem(x, positive, weight, strength), start, tolerance=tolerance)
    empty = weight[0] == 0
    odds = (positive.sum(0) + 0.5) / (len(positive) - positive.sum(0) + 0.5)
    theta[empty, -1] = odds.log()[empty]
    return theta


def mean_precision(z: Tensor, positive: Tensor) -> Tensor:
    """Mean over the labels that have positives of the average precision of z [N, C]."""
    hit = positive.gather(0, torch.argsort(z, dim=0, descending=True, stable=True))
    precision = hit.cumsum(0) / torch.arange(1, len(z) + 1).to(z)[:, None]
    some = positive.sum(0) > 0
    return ((precision * hit).sum(0) / positive.sum(0))[some].mean()


def gathered(features: Iterator[tuple[Tensor, Targets]]) -> tuple[Any, Tensor]:
    """All features [N, D], sparse if they mostly are, and which labels are positive [N, C], as float32."""
    from scipy import sparse

    blocks: list[Any] = []
    positives = []
    thin = processes.count() == 1
    for x, targets in features:
        x = x.detach().float().cpu()
        thin = thin and int((x != 0).sum()) <= _SPARSE * x.numel()
        if not thin:
            blocks = [block if isinstance(block, Tensor) else torch.from_numpy(block.toarray()) for block in blocks]
        blocks.append(sparse.csr_array(x.numpy()) if thin else x)
        positives.append((targets.observed & (targets.positive > 0.5)).float().cpu())
    x = sparse.csr_array(sparse.vstack(blocks)) if thin else processes.rows(torch.cat(blocks))
    return x, processes.rows(torch.cat(positives))


def _rows(x: Any, rows: Tensor) -> Any:
    return x[rows] if isinstance(x, Tensor) else x[rows.numpy()]
