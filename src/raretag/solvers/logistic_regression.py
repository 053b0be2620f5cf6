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

from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.objective import Objective
from raretag.core.targets import LabelStatistics, Targets
from raretag.objective.completions import UnknownIsNegative
from raretag.objective.reductions import Per, reduction
from raretag.objective.scores import CrossEntropy
from raretag.solvers.balanced import Balanced
from raretag.solvers.gathered import gathered
from raretag.solvers.strength import STRENGTHS, choose, solved, told


class LogisticRegression(Method):
    solves = True
    strength: Tensor
    tried: Tensor

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
        self.register_buffer("tried", torch.full((len(STRENGTHS),), torch.nan))  # mAP on held-out folds

    def begin_stage(
        self, number: int, model: nn.Module, features: Callable[[], Iterator[tuple[Tensor, Targets]]]
    ) -> None:
        classify = next((part for part in model.get_submodule("head").modules() if isinstance(part, nn.Linear)), None)
        if classify is None:
            raise UserError("logistic_regression fills a linear classifier; leave head.name and branches.name alone")
        x, positive, _ = gathered(features())
        if self.asked is None:
            choice = choose(x, positive, self.folds, self.seed, tell=self.tell)
            self.tried.copy_(choice.tried)
        strength = choice.strength if self.asked is None else self.asked
        self.strength.fill_(strength)
        theta = solved(x, positive, strength)
        with torch.no_grad():
            classify.weight.copy_(theta[:, :-1])
            classify.bias.copy_(theta[:, -1])

    def vital_signs(self) -> dict[str, float]:
        return {**super().vital_signs(), "strength": float(self.strength)}

    def learned(self) -> dict[str, Any]:
        return {"strength": float(self.strength), "held_out_mAP": told(self.tried)}
