r"""Metrics of decisions: precision, recall, F1, exact match.

Duarte et al., "PLM: Partial Label Masking for Imbalanced Multi-label Classification", supplement, eq. (1)-(5),
cited as (9)-(13) where the numbers of the paper are continued.

Paper and code::

    (1)  P(c)  = TP / (TP + FP)      0 if nothing was predicted
         R(c)  = TP / (TP + FN)
    (2)  means of P(c) and of R(c) over classes
    (3)  F1(c) = 2 P(c) R(c) / (P(c) + R(c)) = 2 TP / (2 TP + FP + FN)
    (4)  mean of F1(c) over classes
    (5)  share of items whose whole label vector is right

Three numbers called F1 differ: macro F1 is the mean of F1(c), as in PLM; CF1 (ML-GCN) is the harmonic mean of mean
precision and mean recall; micro F1 = OF1 is F1 of the counts of all classes together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.scored import Sums, check_no_nan, mean_of_known, positives


def decide(scores: Tensor, thresholds: float | Tensor) -> Tensor:
    """[N, C] bool: scores above one threshold, or above one for each class. Both must be on the same scale.

    >>> import torch, raretag
    >>> raretag.metrics.decide(torch.tensor([[0.9, 0.2]]), torch.tensor([0.5, 0.1]))
    tensor([[True, True]])
    """
    check_no_nan(scores)
    if isinstance(thresholds, Tensor):
        if thresholds.dim() > 1 or (thresholds.dim() == 1 and len(thresholds) != scores.shape[1]):
            raise UserError(f"thresholds {tuple(thresholds.shape)} for {scores.shape[1]} labels: expected one for each")
        thresholds = thresholds.to(scores.device)
    return scores > thresholds


@dataclass(frozen=True, slots=True)
class DecisionCounts(Sums):
    """True and false positives and negatives of each class, over what was observed; shards merge with `+`.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> counts = raretag.metrics.DecisionCounts.of(raretag.metrics.decide(logits, 0.0), targets)
    >>> counts.tp, counts.fp, counts.fn
    (tensor([1, 1]), tensor([1, 0]), tensor([1, 0]))
    """

    tp: Tensor  # [C] int64, as the three below; of observed entries
    fp: Tensor
    fn: Tensor
    tn: Tensor
    exact: Tensor  # [] int64, rows whose observed entries are all right
    rows: Tensor  # [] int64, rows with an observed entry
    excluded_rows: Tensor  # [] int64, rows without

    @classmethod
    def of(cls, decided: Tensor, targets: Targets) -> DecisionCounts:
        check_decided(decided, targets)
        positive, observed = positives(targets), targets.observed
        wrong = observed & (decided ^ positive)
        fp, fn = (wrong & decided).sum(0), (wrong & positive).sum(0)
        tp = positive.sum(0) - fn
        known = observed.any(1)
        return cls(
            tp=tp,
            fp=fp,
            fn=fn,
            tn=observed.sum(0) - tp - fp - fn,
            exact=(known & ~wrong.any(1)).sum(),
            rows=known.sum(),
            excluded_rows=(~known).sum(),
        )

    @property
    def evaluated(self) -> Tensor:
        """[C] bool: the class has an observed positive."""
        return self.tp + self.fn > 0


def check_decided(decided: Tensor, targets: Targets) -> None:
    if decided.dtype != torch.bool or decided.dim() != 2 or decided.shape != targets.value.shape:
        raise UserError(
            f"decisions are {decided.dtype} {tuple(decided.shape)}, expected bool {tuple(targets.value.shape)} "
            "[items, labels]: use `decide(scores, thresholds)`"
        )


# For each class [C] float64, NaN for classes without an observed positive. ------------------------------------------


def precision(counts: DecisionCounts) -> Tensor:
    """Precision of each class [C]; NaN for a class without an observed positive, 0 if nothing was decided for.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.precision(counts)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    share = counts.tp / (counts.tp + counts.fp).clamp(min=1).double()
    return torch.where(counts.evaluated, share, math.nan)


def recall(counts: DecisionCounts) -> Tensor:
    """Recall of each class [C]; NaN for a class without an observed positive.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.recall(counts)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    return counts.tp / (counts.tp + counts.fn).double()  # 0 / 0 is the NaN we want


def f1(counts: DecisionCounts) -> Tensor:
    """F1 of each class [C]; NaN for a class without an observed positive.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.f1(counts)
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    share = 2 * counts.tp / (2 * counts.tp + counts.fp + counts.fn).clamp(min=1).double()
    return torch.where(counts.evaluated, share, math.nan)


# Over classes. -------------------------------------------------------------------------------------------------------


def macro_precision(counts: DecisionCounts) -> float:
    """CP: the mean precision of the classes.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.macro_precision(counts)
    0.75
    """
    return mean_of_known(precision(counts))


def macro_recall(counts: DecisionCounts) -> float:
    """CR: the mean recall of the classes.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.macro_recall(counts)
    0.75
    """
    return mean_of_known(recall(counts))


def macro_f1(counts: DecisionCounts) -> float:
    """The mean F1 of the classes, as in PLM.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.macro_f1(counts)
    0.75
    """
    return mean_of_known(f1(counts))


def class_f1(counts: DecisionCounts) -> float:
    """CF1: the harmonic mean of CP and CR.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.class_f1(counts)
    0.75
    """
    return _harmonic(macro_precision(counts), macro_recall(counts))


def overall_precision(counts: DecisionCounts) -> float:
    """OP: precision of the counts of all classes together; 0 if nothing was predicted, as for a class.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.overall_precision(counts)
    0.6666666666666666
    """
    tp, predicted = int(counts.tp.sum()), int(counts.tp.sum() + counts.fp.sum())
    return tp / max(1, predicted) if counts.evaluated.any() else math.nan


def overall_recall(counts: DecisionCounts) -> float:
    """OR: recall of the counts of all classes together.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.overall_recall(counts)
    0.6666666666666666
    """
    return _ratio(counts.tp.sum(), counts.tp.sum() + counts.fn.sum())


def micro_f1(counts: DecisionCounts) -> float:
    """OF1: F1 of the counts of all classes together.

    Predictions for classes without an observed positive count as false positives here.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.micro_f1(counts)
    0.6666666666666666
    """
    wrong = counts.fp.sum() + counts.fn.sum()
    return _ratio(2 * counts.tp.sum(), 2 * counts.tp.sum() + wrong) if counts.evaluated.any() else math.nan


def exact_match(counts: DecisionCounts) -> float:
    """The share of rows whose observed entries are all right, eq. (5); rows with nothing observed are excluded.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.exact_match(counts)
    0.3333333333333333
    """
    return _ratio(counts.exact, counts.rows)


def hamming_loss(counts: DecisionCounts) -> float:
    """The share of wrong decisions among all observed entries.

    >>> import torch, raretag
    >>> decided = torch.tensor([[True, False], [False, True], [True, False]])
    >>> counts = raretag.metrics.DecisionCounts.of(decided, raretag.Targets.from_dense([[1, 0], [1, 1], [0, 0]]))
    >>> raretag.metrics.hamming_loss(counts)
    0.3333333333333333
    """
    wrong = counts.fp.sum() + counts.fn.sum()
    return _ratio(wrong, wrong + counts.tp.sum() + counts.tn.sum())


def least_frequent(training_positives: Tensor, k: int) -> Tensor:
    """The k classes with the fewest training positives, ties broken by the smaller index: a group of classes.

    PLM's "K least frequent" is `grouped_means(f1(counts), {"K=5": least_frequent(training_positives, 5)})`.

    >>> import torch, raretag
    >>> raretag.metrics.least_frequent(torch.tensor([50, 3, 8]), 2)
    tensor([1, 2])
    """
    return torch.argsort(training_positives, stable=True)[:k]


def _ratio(part: Tensor, whole: Tensor) -> float:
    return int(part) / int(whole) if whole else math.nan


def _harmonic(a: float, b: float) -> float:
    return 0.0 if a + b == 0 else 2 * a * b / (a + b)
