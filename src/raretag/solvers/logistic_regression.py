r"""Balanced logistic regression for each label, solved to its minimum instead of trained step by step.

Cox, "The Regression Analysis of Binary Sequences", 1958; balanced weights as scikit-learn's `class_weight="balanced"`.

Paper and code::

    n_c    positives of label c among N training items;  x  features;  K  strength, scikit-learn's C

    s = N / (2 n_c) where y = 1,  N / (2 (N - n_c)) where y = 0
    L_c = 1/2 |w_c|^2 + K sum s log(1 + exp(-(2y - 1)(w_c x + b_c)))

All labels share one K: the one with the best mean average precision on held-out folds of the training items, along a
path that ends after it has fallen twice. With `by_fold` the items of a fold are ranked among themselves, along a wider
path; otherwise the items of all folds are ranked together, although their solutions have different levels. Unknown
labels count as negative, in the loss and in that choice. A label without positives gets a low bias and no weights.

Reduces to:
    scikit-learn's LogisticRegression(C=K, class_weight="balanced") of each label.

Departs from the paper:
    the weights; one K for all labels.

Departs from the authors' code:
    scikit-learn's OneVsRestClassifier miscounts in a uint8 label matrix of more than 255 columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.solver import Features, Solver
from raretag.solvers.learners import gathered
from raretag.solvers.regression import Tried, choose, solved


class LogisticRegression(Solver):
    """Balanced logistic regression; `strength` is scikit-learn's C, and None chooses it on `folds` held-out folds."""

    cross_fits = takes_sparse = True

    def __init__(self, *, strength: float | None = None, folds: int = 3, by_fold: bool = False, seed: int = 0) -> None:
        if folds < 2 or (strength is not None and strength <= 0):
            raise UserError(
                f"folds is {folds} and strength {strength}; expected 2 folds or more, and a strength above 0"
            )
        self.strength, self.folds, self.by_fold, self.seed = strength, folds, by_fold, seed
        self.chosen: float | None = None
        self.tried: Tried = {}

    def solve(self, features: Features, head: nn.Module, listener: Listener) -> Tensor | None:
        classify = next((part for part in head.modules() if isinstance(part, nn.Linear)), None)
        if classify is None:
            raise UserError("logistic_regression fills a linear classifier; leave head.name and branches.name alone")
        x, found, _ = gathered(features())
        positive = found.float()
        self.chosen, held_out = self.strength, None
        if self.chosen is None:
            choice = choose(x, positive, self.folds, self.seed, listener=listener, by_fold=self.by_fold)
            self.chosen, self.tried, held_out = choice.strength, choice.tried, choice.held_out
        theta = solved(x, positive, self.chosen)
        with torch.no_grad():
            classify.weight.copy_(theta[:, :-1])
            classify.bias.copy_(theta[:, -1])
        return held_out

    def vital_signs(self) -> dict[str, float]:
        return {} if self.chosen is None else {"strength": self.chosen}

    def learned(self) -> dict[str, Any]:
        best = {"out_of_fold_mAP": max(self.tried.values())} if self.tried else {}
        return {"strength": self.chosen, "held_out_mAP": self.tried, **best}
