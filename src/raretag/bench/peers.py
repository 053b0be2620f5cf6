r"""What users already have, as rows of a table: classifiers of other libraries, tuned by folds, fitted to all items.

    raretag train --data corel5k --method raretag.bench.peers:LinearSvc

All get the prepared features [N, D] that our own solvers get. What is unknown counts as negative. The items are dealt
into 3 folds as for `logistic_regression`; one number (C, or how long to train) is chosen by `fold_precision`. The path
of C ends when that fell twice beyond C = 1. The final fit has all items. The held-out scores of what was chosen are
given back, so thresholds are tuned for these rows as they are for ours.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from math import sqrt
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.solver import Features, Solver
from raretag.models.heads.plain import WithSkip
from raretag.solvers.learners import gathered, rows_of
from raretag.solvers.newton import Products
from raretag.solvers.regression import USUAL, fold_precision, random_folds

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # C, of rows whose mean square length is 1
FOLDS = 3
NEVER = -10.0  # score of a label without training positives


class OneVsRest(Solver):
    """A linear classifier of each label by another library."""

    cross_fits = True

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self.chosen, self.tried = 0.0, dict[str, float]()

    @abstractmethod
    def fitted(self, x: Any, positive: Tensor, strength: float) -> NDArray[np.float64]:
        """[C, D + 1] weights and, last, biases of labels that all have positives [N, C] and others; x may be sparse."""

    def solve(self, features: Features, head: nn.Module, listener: Listener) -> Tensor:
        classify = next((part for part in head.modules() if isinstance(part, nn.Linear)), None)
        if classify is None:
            raise UserError("a linear peer fills a linear classifier; leave head.name and branches.name alone")
        found, positive, _ = gathered(features())
        unit = sqrt(Products(found).unit)
        x = found.double().mul(unit).numpy() if isinstance(found, Tensor) else sparse_doubles(found, unit)
        fold = random_folds(len(positive), FOLDS, self.seed)
        best, held_out = 0.0, torch.zeros(positive.shape)
        values: list[float] = []
        for at, strength in enumerate(STRENGTHS):
            z = torch.zeros(positive.shape)
            for k in range(FOLDS):
                theta = self.theta(rows_of_array(x, fold != k), positive[fold != k], strength)
                z[fold == k] = scores(rows_of_array(x, fold == k), theta)
                listener.progress(0.9 * (at * FOLDS + k + 1) / (len(STRENGTHS) * FOLDS))
            values.append(fold_precision(z, positive, fold))
            if values[-1] > best:
                best, self.chosen, held_out = values[-1], strength, z
            if strength > USUAL and values[at] < values[at - 1] < values[at - 2]:
                break
        self.tried = {f"{one:g}": value for one, value in zip(STRENGTHS, values, strict=False)}
        theta = self.theta(x, positive, self.chosen or 1.0)
        with torch.no_grad():
            classify.weight.copy_(theta[:, :-1] * unit)
            classify.bias.copy_(theta[:, -1])
        listener.progress(1.0)
        return held_out

    def theta(self, x: Any, positive: Tensor, strength: float) -> Tensor:
        """[C, D + 1]; labels with one side only get a constant."""
        count = positive.sum(0)
        both = ((count > 0) & (count < len(positive))).nonzero().flatten()
        theta = torch.zeros(positive.shape[1], x.shape[1] + 1, dtype=torch.float64)
        theta[:, -1] = torch.where(count > 0, -NEVER, NEVER)
        if len(both):
            theta[both] = torch.from_numpy(self.fitted(x, positive[:, both], strength))
        return theta

    def vital_signs(self) -> dict[str, float]:
        return {"strength": self.chosen}

    def learned(self) -> dict[str, Any]:
        best = max(self.tried.values(), default=None)
        return {"strength": self.chosen, "held_out_mAP": self.tried, "out_of_fold_mAP": best}


class ScikitLearn(OneVsRest):
    """An estimator of scikit-learn for each label."""

    @abstractmethod
    def estimator(self, strength: float) -> Any: ...

    def fitted(self, x: Any, positive: Tensor, strength: float) -> NDArray[np.float64]:
        def one(y: NDArray[np.bool_]) -> NDArray[np.float64]:
            made = self.estimator(strength).fit(x, y)
            return np.append(made.coef_[0], made.intercept_[0])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = positive.numpy().T
            found = Parallel(torch.get_num_threads(), prefer="threads")(delayed(one)(y) for y in labels)
        return np.stack(found)


class LinearSvc(ScikitLearn):
    """LinearSVC (squared hinge)."""

    def estimator(self, strength: float) -> Any:
        return LinearSVC(C=strength, random_state=self.seed)


class Logistic(ScikitLearn):
    """LogisticRegression with balanced weights and its default solver: what L is, by what users have installed."""

    def estimator(self, strength: float) -> Any:
        return LogisticRegression(C=strength, class_weight="balanced", solver="liblinear", random_state=self.seed)


class LibMultiLabel(OneVsRest):
    """LibMultiLabel's linear one-vs-rest: its default solver, with a bias."""

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        try:
            from libmultilabel import linear
        except ImportError as error:
            raise UserError(f"this row needs LibMultiLabel: pip install libmultilabel ({error})") from None
        self.library = linear

    def fitted(self, x: Any, positive: Tensor, strength: float) -> NDArray[np.float64]:
        y = sparse.csr_matrix(positive.numpy().astype(np.float64))
        model = self.library.train_1vsrest(y, sparse.csr_matrix(x), options=f"-B 1 -c {strength}", verbose=False)
        return np.asarray(model.weights).T


class Mlp(Solver):
    """A perceptron of one hidden layer with binary cross entropy and AdamW, trained as many epochs as folds say."""

    head = "with_skip"  # without the skip
    cross_fits = True

    def __init__(
        self,
        *,
        rate: float = 1e-3,
        dropout: float = 0.5,
        batch_size: int = 64,
        epochs: int = 100,
        patience: int = 8,
        seed: int = 0,
    ) -> None:
        self.rate, self.dropout, self.batch_size = rate, dropout, batch_size
        self.most, self.patience, self.seed = epochs, patience, seed
        self.tried: list[float] = []

    def solve(self, features: Features, head: nn.Module, listener: Listener) -> Tensor:
        if not isinstance(head, WithSkip):
            raise UserError("this peer fills the head 'with_skip'; leave head.name and branches.name alone")
        x, positive, _ = gathered(features())
        fold = random_folds(len(positive), FOLDS, self.seed)
        width = head.hidden.out_features
        parts = [(fold != k).nonzero().flatten() for k in range(FOLDS)]
        nets = [Perceptron(x.shape[1], width, positive[rows], self, k) for k, rows in enumerate(parts)]
        held_out = torch.zeros(positive.shape)
        for epoch in range(self.most):
            z = torch.zeros(positive.shape)
            for k, rows in enumerate(parts):
                nets[k].epoch(x, positive, rows)
                z[fold == k] = nets[k].scores(x, (fold == k).nonzero().flatten())
            self.tried.append(fold_precision(z, positive, fold))
            if self.tried[-1] == max(self.tried):
                held_out = z
            listener.progress(0.7 * (epoch + 1) / self.most)
            if epoch - self.best >= self.patience:
                break
        final = Perceptron(x.shape[1], width, positive, self, FOLDS)
        for _ in range(self.best + 1):
            final.epoch(x, positive, torch.arange(len(positive)))
        with torch.no_grad():
            head.skip.weight.zero_()
            head.hidden.weight.copy_(final.first.T)
            head.hidden.bias.copy_(final.first_bias)
            head.classify.load_state_dict(final.second.state_dict())
        listener.progress(1.0)
        return held_out

    @property
    def best(self) -> int:
        """The epoch, from 0, after which held-out items were ranked best."""
        return int(np.argmax(self.tried))

    def vital_signs(self) -> dict[str, float]:
        return {"epochs": self.best + 1.0}

    def learned(self) -> dict[str, Any]:
        return {"epochs": self.best + 1, "held_out_mAP": self.tried, "out_of_fold_mAP": max(self.tried)}


class Perceptron:
    """z = V dropout(relu(U x + u)) + v, with its optimizer; sparse rows cost as much as they are filled."""

    def __init__(self, columns: int, width: int, positive: Tensor, settings: Mlp, number: int) -> None:
        self.draws = torch.Generator().manual_seed(1000 * settings.seed + number)
        self.settings = settings
        bound = 1 / sqrt(columns)
        self.first = torch.empty(columns, width).uniform_(-bound, bound, generator=self.draws).requires_grad_()
        self.first_bias = torch.zeros(width, requires_grad=True)
        self.second = nn.Linear(width, positive.shape[1])
        nn.init.uniform_(self.second.weight, -1 / sqrt(width), 1 / sqrt(width), generator=self.draws)
        share = (positive.sum(0) + 0.5) / (len(positive) + 1)
        with torch.no_grad():
            self.second.bias.copy_(share.logit())
        parameters = [self.first, self.first_bias, *self.second.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, settings.rate, weight_decay=1e-4, fused=True)

    def hidden(self, x: Any) -> Tensor:
        if isinstance(x, Tensor):
            return torch.relu(x @ self.first + self.first_bias)
        columns, ends = torch.from_numpy(x.indices).long(), torch.from_numpy(x.indptr).long()
        summed = nn.functional.embedding_bag(
            columns, self.first, ends, mode="sum", per_sample_weights=torch.from_numpy(x.data), include_last_offset=True
        )
        return torch.relu(summed + self.first_bias)

    def epoch(self, x: Any, positive: Tensor, rows: Tensor) -> None:
        order = rows[torch.randperm(len(rows), generator=self.draws)]
        kept = 1 - self.settings.dropout
        for batch in order.split(self.settings.batch_size):
            hidden = self.hidden(rows_of(x, batch))
            drop = torch.empty_like(hidden).bernoulli_(kept, generator=self.draws) / kept
            z = self.second(hidden * drop)
            loss = nn.functional.binary_cross_entropy_with_logits(z, positive[batch].float(), reduction="none")
            self.optimizer.zero_grad()
            loss.sum(1).mean().backward()
            self.optimizer.step()

    @torch.no_grad()
    def scores(self, x: Any, rows: Tensor) -> Tensor:
        return torch.cat([self.second(self.hidden(rows_of(x, part))) for part in rows.split(1024)])


def sparse_doubles(x: Any, unit: float) -> Any:
    """As liblinear wants them: float64 values, 32-bit indices."""
    found = sparse.csr_matrix(x, dtype=np.float64) * unit
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def rows_of_array(x: Any, chosen: Tensor) -> Any:
    return x[chosen.nonzero().flatten().numpy()]


def scores(x: Any, theta: Tensor) -> Tensor:
    """[N, C]"""
    return torch.from_numpy(np.asarray(x @ theta[:, :-1].T.numpy()) + theta[:, -1].numpy()).float()
