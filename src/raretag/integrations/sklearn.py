"""raretag as an estimator of scikit-learn, scores for labels of which some are unknown, and folds with rare labels.

scikit-learn knows two states of a label and refuses a NaN in Y wherever it looks at Y itself. It does not look where a
splitter and a scorer are given as objects, so `Folds` and `scorer` let GridSearchCV work on labels that nobody saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from raretag import metrics
from raretag.core.errors import UserError
from raretag.core.listener import PRINTING, SILENT
from raretag.core.registry import nearest
from raretag.core.targets import Targets
from raretag.data.arrays import are_texts, as_labels, from_arrays, plain
from raretag.labels.split import split
from raretag.labels.store import LabelStore

Floats = NDArray[np.float64]
Rows = NDArray[np.integer[Any]]
PROBABILITY = 1e-12  # the nearest to 0 and 1 of which a logit is taken


class RaretagClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A multi-label classifier for scikit-learn that supports unknown labels.

    `y` is an array [N, C] (1, 0; NaN, -1 or -100 where nobody looked), a sparse matrix, a DataFrame, or a list of label
    names per item. X is an array, a sparse matrix, a DataFrame, or a list of texts.

    Args:
        method: as in `raretag.train`: "auto", a name, a method or a solver, or a loss(logits, targets).
        options: of the method, where it is a name: {"gamma": 2.0}.
        model: a module from inputs to logits, or a name; for methods that are trained step by step.
        effort: of solvers: "quick", "default" or "best".
        settings: anything else that `raretag.train` takes, such as {"epochs": 5, "batch_size": 64}.
        absent: where Y is lists or a sparse matrix, what a label is that is not mentioned: "negative" or "unknown".
        random_state: the seed, a whole number.
        verbose: print what raretag guesses and warns of.

    Attributes:
        classes_: the names of the labels, or their numbers, in the order of the columns.
        thresholds_: [C]; `predict` gives a label whose probability is above its own.
        model_: the `raretag.Model`, which also predicts files and is exported.
        record_: the record of the training; `record_.metrics.final.mAP.total` is measured on held-out scores.

    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> Y = (X[:, :2] > 0.3).astype(float)
    >>> Y[::4, 0] = np.nan
    >>> classifier = RaretagClassifier("logistic_regression").fit(X, Y)
    >>> classifier.predict(X[:3]).shape, classifier.predict_proba(X[:3]).shape, classifier.classes_.tolist()
    ((3, 2), (3, 2), [0, 1])
    """

    def __init__(
        self,
        method: Any = "auto",
        *,
        options: Mapping[str, Any] | None = None,
        model: Any = None,
        effort: str = "default",
        settings: Mapping[str, Any] | None = None,
        absent: str | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.method, self.options, self.model, self.effort = method, options, model, effort
        self.settings, self.absent, self.random_state, self.verbose = settings, absent, random_state, verbose

    def fit(self, X: Any, y: Any) -> RaretagClassifier:
        """Learn from all items; thresholds and calibration come from held-out scores."""
        from raretag.front import train
        from raretag.serve.model import Model, load

        inputs = self._checked(X, reset=True)
        labels = labels_of(y, self.absent)
        if len(labels) == 1:
            raise UserError("X has n_samples=1; expected more items, as some must be held out")
        method: Any = self.method
        if self.options is not None:
            if not isinstance(method, str):
                raise UserError(f"options belong to a method that is a name, but method is a {type(method).__name__}")
            method = {"name": method, **self.options}
        data = from_arrays(inputs, labels, test=0.0, seed=int(self.random_state), name="scikit-learn")
        run = train(
            data,
            self.model,
            method,
            listener=PRINTING if self.verbose else SILENT,
            effort=self.effort,
            seed=int(self.random_state),
            **(self.settings or {}),
        )
        model = load(run)
        if not isinstance(model, Model):
            raise UserError(
                f"{labels.labels:,} labels are ranked, not scored one by one; use raretag.train, or name a method"
            )
        self.record_, self.model_ = run.record, model
        self.classes_ = np.arange(labels.labels) if labels.given_names is None else np.asarray(labels.names)
        self.thresholds_ = self.model_.thresholds.numpy()
        return self

    def predict_proba(self, X: Any) -> Floats:
        """[N, C]: the calibrated probability of each label."""
        check_is_fitted(self)
        found = self.model_.predict(self._checked(X, reset=False))
        return found.probabilities.astype(np.float64)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """[N, C] of 0 and 1."""
        return (self.predict_proba(X) > self.thresholds_).astype(np.int64)

    def decision_function(self, X: Any) -> Floats:
        """[N, C]: the distance of each label's logit from its threshold; above 0 is what `predict` chooses."""
        values = np.clip(self.predict_proba(X), PROBABILITY, 1 - PROBABILITY)
        bounds = np.clip(self.thresholds_, PROBABILITY, 1 - PROBABILITY)
        distances: Floats = logit(values) - logit(bounds)
        return distances

    def predict_labels(self, X: Any) -> list[list[str]]:
        """The names of the labels that each item is predicted to have."""
        return [self.classes_[row].tolist() for row in self.predict(X).astype(bool)]

    def score(self, X: Any, y: Any) -> float:
        """mAP: the mean over labels of the average precision, over observed labels."""
        return scorer("mAP")(self, X, y)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Texts as they are; numbers as scikit-learn wants them, so that a wrong width is found and said."""
        values = plain(X)
        if are_texts(values):
            return list(values)
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float32, allow_nd=True)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        tags.classifier_tags.multi_label, tags.classifier_tags.multi_class = True, False
        tags.classifier_tags.poor_score = True  # small multi-label problems are not what it is made for
        return tags


class Folds:
    """Folds in which every label has its share of positives, however rare; labels may be unknown.

    For `cv=` of GridSearchCV, cross_val_score and the like.

    >>> Y = np.array([[1, np.nan], [0, 1], [1, 0], [np.nan, 1], [0, 0], [0, 0]])
    >>> [test.tolist() for _, test in Folds(2).split(Y, Y)]
    [[0, 1, 4], [2, 3, 5]]
    """

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        if n_splits < 2:
            raise UserError(f"n_splits is {n_splits}; expected 2 or more folds")
        self.n_splits, self.random_state = n_splits, random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many folds there are."""
        return self.n_splits

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[Rows, Rows]]:
        """Training rows and test rows of each fold; `groups` are not used."""
        labels = labels_of(y)
        parts = split(labels, [1 / self.n_splits] * self.n_splits, seed=self.random_state).parts
        for test in parts:
            yield np.setdiff1d(np.arange(len(labels)), test), test

    def __repr__(self) -> str:
        return f"Folds(n_splits={self.n_splits}, random_state={self.random_state})"


RANKED: dict[str, Callable[..., Any]] = {"mAP": metrics.average_precision}  # [C] of scores [N, C]
DECIDED: dict[str, Callable[..., Any]] = {  # [C], or a number, of counted decisions
    "F1": metrics.f1,
    "precision": metrics.precision,
    "recall": metrics.recall,
    "micro_F1": metrics.micro_f1,
    "exact_match": metrics.exact_match,
    "neg_hamming": lambda counts: -metrics.hamming_loss(counts),
}


class scorer:  # noqa: N801 - used like a function, and a class so that it can be pickled for `n_jobs`
    """A score for scikit-learn that leaves unknown labels out: `scoring=raretag.sklearn.scorer("mAP")`.

    Args:
        name: mAP, or of the decisions of `predict`: F1, precision, recall (means over labels), micro_F1, exact_match,
            neg_hamming. Labels that cannot be measured, as none of their positives was observed, do not count.
        labels: the columns to look at, such as those of the rare labels; default: all.

    Works with any estimator that has predict_proba or decision_function, and for decisions with any at all.

    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> Y = np.where(np.arange(80)[:, None] % 5 == 0, np.nan, X[:, :2] > 0.3)
    >>> classifier = RaretagClassifier("logistic_regression").fit(X, Y)
    >>> scorer("mAP")(classifier, X, Y) > 0.9
    True
    """

    def __init__(self, name: str = "mAP", *, labels: Sequence[int] | None = None) -> None:
        if name not in (*RANKED, *DECIDED):
            raise UserError(f"there is no score '{name}'; {nearest(name, (*RANKED, *DECIDED))}")
        self.name, self.labels = name, labels

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        ranked = self.name in RANKED
        scores = scores_of(estimator, X) if ranked else np.asarray(estimator.predict(X)) > 0.5
        ours = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        known = (ours.absent, ours.classes_) if isinstance(ours, RaretagClassifier) else ()
        targets = labels_of(Y, *known).targets()
        some = slice(None) if self.labels is None else list(self.labels)
        targets = Targets(targets.value[:, some], targets.observed[:, some])
        chosen = torch.from_numpy(scores)[:, some]
        if ranked:
            found = RANKED[self.name](chosen, targets)
        else:
            found = DECIDED[self.name](metrics.DecisionCounts.of(chosen, targets))
        return float(torch.nanmean(torch.as_tensor(found, dtype=torch.float64)))

    def __repr__(self) -> str:
        return f"scorer({self.name!r}{'' if self.labels is None else f', labels={list(self.labels)}'})"


def out_of_fold(estimator: Any, X: Any, Y: Any, *, cv: int | Folds = 5) -> Floats:
    """[N, C] probabilities of items by estimators that never saw them: `cross_val_predict` for unknown labels.

    scikit-learn's own function numbers the values in each column of Y anew before it fits, which turns NaN into a
    class.

    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> Y = np.where(np.arange(80)[:, None] % 5 == 0, np.nan, X[:, :2] > 0.3)
    >>> out_of_fold(RaretagClassifier("logistic_regression"), X, Y, cv=2).shape
    (80, 2)
    """
    labels = labels_of(Y)
    folds = Folds(cv) if isinstance(cv, int) else cv
    found = np.full((len(labels), labels.labels), np.nan)
    for train, test in folds.split(X, labels):
        fitted = clone(estimator).fit(_safe_indexing(X, train), labels.take(train))
        found[test] = scores_of(fitted, _safe_indexing(X, test))
    return found


def labels_of(Y: Any, absent: Any = None, names: Any = None) -> LabelStore:
    """A store of whatever Y is; lists of label names are brought into the order of `names`, where these are known."""
    if Y is None:
        raise UserError("this classifier requires y to be passed, but the target y is None")
    if isinstance(Y, LabelStore) or sparse.issparse(Y):
        return as_labels(Y, absent=None if isinstance(Y, LabelStore) else absent)
    values = plain(Y)
    if isinstance(values, (list, tuple)):
        if _are_names(values):
            return as_labels(values, names=names, absent=absent)
        values = np.asarray(values)
    if np.ndim(values) == 1:
        raise UserError(
            f"y has shape {np.shape(values)}; expected [items, labels] or a list of label names per item: "
            "y.reshape(-1, 1) is one label"
        )
    try:
        return as_labels(values)
    except UserError as error:
        raise UserError(f"Unknown label type: {error}") from None  # the words that scikit-learn looks for


def _are_names(values: Sequence[Any]) -> bool:
    """Whether each item has a collection of label names."""
    rows = [row for row in values if isinstance(row, (list, tuple, set, frozenset))]
    return len(rows) == len(values) and all(isinstance(one, str) for row in rows for one in row)


def scores_of(estimator: Any, X: Any) -> Floats:
    """[N, C] of any estimator: probabilities, or distances from its border."""
    if hasattr(estimator, "predict_proba"):
        found = estimator.predict_proba(X)
        if isinstance(found, list):  # scikit-learn's own: [N, 2] for each label, or [N, 1] where it saw one state only
            found = np.stack([one[:, -1] if one.shape[1] > 1 else np.zeros(len(one)) for one in found], axis=1)
    else:
        found = estimator.decision_function(X)
    return np.asarray(found, np.float64)
