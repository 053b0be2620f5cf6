r"""Honest numbers on a test set of which some labels are unknown: observed, bounds, and an estimate with an interval.

The estimate weighs what was observed.

Paper and code::

    c_l, d_l   chances         P(observed | positive), P(observed | negative) of label l
    TP = tp / c,   FP = fp / d,   P = positives / c                (Horvitz and Thompson, 1952)

    at an observed positive of rank r:   TP(r) = 1 + (tp(r) - 1) / c      it is there itself, the others are weighed
    AP = mean over observed positives of TP(r) / r            where c is known: the rank r is, and the mean is unbiased
    AP = mean over observed positives of TP(r) / (TP(r) + FP(r))    where c and d are estimated: their errors cancel

Where no negative of a label was observed, FP = decided - TP: the number of items is known.

Assumption, which no data can check: within a label, whether a positive was observed does not depend on its score (and
so for a negative). c must be known, unless negatives were observed too and observation does not depend on the state:
then c = d = the observed share.

Intervals: estimate +- 1.96 deviations of a bootstrap over items. Percentiles are not used: an item drawn twice supports
itself, which lifts the average precision of every replicate.

Recall of hidden positives: does the model find what the annotation of its own training items left out? Zhang et al.
(COMIC, ICCV 2023, Table 2) report a "recall for missing label settings" without defining it; this is the plain reading.
A positive is hidden if it is positive in the full truth, and unknown in the partial labels the model was trained with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import bounds, decisions
from raretag.metrics.decisions import check_decided
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import Scored, Sums, mean_of_known, number_or_none, positives

Numbers = dict[str, Any]
Floats = NDArray[np.float64]
_WIDTH = 1.96  # deviations: 95 %


def partial_truth(
    logits: Tensor,
    targets: Targets,
    *,
    thresholds: float | Tensor = 0.5,
    kept: float | Floats | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Numbers:
    """Numbers on partly labelled items: for each metric `observed`, `bounds`, `estimate` and `interval`.

    None stands where nothing can be estimated.

    kept    P(observed | positive), one number or [C], if it is known; else observation is taken not to depend on the
            state, which needs observed negatives
    draws   of the bootstrap

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.partial_truth(logits, targets, draws=20)["micro_recall"]["bounds"]
    [0.5, 0.6666666666666666]
    """
    if kept is not None and not (np.min(kept) > 0 and np.max(kept) <= 1):
        raise UserError(f"kept is {kept}; expected the share of the true positives that are observed, above 0 up to 1")
    decided = decisions.decide(torch.sigmoid(logits.double()), thresholds)
    counts = decisions.DecisionCounts.of(decided, targets)
    observed = {
        "mAP": mean_of_known(average_precision(logits, targets)),
        "macro_F1": decisions.macro_f1(counts),
        "micro_precision": decisions.overall_precision(counts),
        "micro_recall": decisions.overall_recall(counts),
        "micro_F1": decisions.micro_f1(counts),
    }
    of_ap, of_class = bounds.average_precision_bounds(logits, targets), bounds.decision_bounds(decided, targets)
    micro = bounds.micro_bounds(decided, targets)
    ends = {
        "mAP": (mean_of_known(of_ap.low), mean_of_known(of_ap.high)),
        "macro_F1": (mean_of_known(of_class["F1"].low), mean_of_known(of_class["F1"].high)),
        **{f"micro_{name}": pair for name, pair in micro.items()},
    }
    value, replicates = estimates(Observed.of(logits, decided, targets), kept, draws, seed)
    found = {
        name: {
            "observed": number_or_none(observed[name]),
            "bounds": [number_or_none(end) for end in ends[name]],
            **_estimate(value[name], replicates[:, place]),
        }
        for place, name in enumerate(METRICS)
    }
    positive = targets.observed & (targets.value == 1)
    return {
        "observed_share": float(targets.observed.double().mean()) if targets.observed.numel() else None,
        "classes_without_observed_positive": int((~positive.any(0)).sum()),
        "assumption": _assumption(kept, bool((targets.observed & ~positive).any())),
        **found,
    }


def _estimate(value: float, replicates: np.ndarray[Any, np.dtype[np.float64]]) -> Numbers:
    known = replicates[~np.isnan(replicates)]
    if np.isnan(value) or len(known) < 2:
        return {"estimate": None, "interval": None}
    reach = _WIDTH * float(known.std(ddof=1))
    value = min(max(value, 0.0), 1.0)
    return {"estimate": value, "interval": [max(value - reach, 0.0), min(value + reach, 1.0)]}


def _assumption(kept: float | Floats | None, negatives: bool) -> str:
    if isinstance(kept, np.ndarray):
        ends = f"{kept.min():.2g} to {kept.max():.2g}, by label"
        return f"a positive was observed with probability {ends}, whatever its score (not checked)"
    if kept is not None:
        return f"a positive was observed with probability {kept:g}, whatever its score (given, not checked)"
    if negatives:
        return "whether a label was observed does not depend on its state or its score"
    return "only positives were observed: without the share that is kept, recall alone can be estimated"


METRICS = ("mAP", "macro_F1", "micro_precision", "micro_recall", "micro_F1")
_AT_ONCE = 1 << 22  # entries of a block of bootstrap draws


@dataclass(frozen=True)
class Observed:
    """Scores, decisions and states as [N, C] arrays."""

    scores: Floats
    decided: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    negative: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: Tensor, decided: Tensor, targets: Targets) -> Observed:
        positive = Scored(scores, targets).positive
        arrays = (scores.detach().double(), decided, positive, targets.observed & ~positive)
        return cls(*(array.cpu().numpy() for array in arrays))


def estimates(entries: Observed, kept: float | Floats | None, draws: int, seed: int) -> tuple[dict[str, float], Floats]:
    """Each metric, and its values in bootstrap draws [draws, 5]; NaN where the labels allow no estimate."""
    whole = np.ones((1, len(entries.scores)))
    value = _metrics(entries, whole, kept)[0]
    generator = np.random.default_rng(seed)
    items = len(entries.scores)
    size = max(1, _AT_ONCE // max(items, 1))
    parts = [
        _metrics(entries, generator.multinomial(items, np.full(items, 1.0 / items), min(size, draws - start)), kept)
        for start in range(0, draws if items else 0, size)
    ]
    replicates = np.concatenate(parts) if parts else np.full((1, len(METRICS)), np.nan)
    return dict(zip(METRICS, value.tolist(), strict=True)), replicates


def observation_chances(
    positives: Floats, negatives: Floats, items: Floats, kept: float | Floats | None
) -> tuple[Floats, Floats]:
    """c and d, shaped as the counts; NaN: cannot be estimated. d is NaN too where no negative was observed."""
    if kept is None:
        share = np.where(negatives > 0, (positives + negatives) / items, np.nan)
        return share, share
    there = np.minimum(positives / kept, items - negatives)
    c = np.where(positives > 0, positives / np.maximum(there, 1e-300), kept)
    d = np.where(negatives > 0, negatives / np.maximum(items - there, 1e-300), np.nan)
    return c, d


def _metrics(entries: Observed, weight: NDArray[Any], kept: float | Floats | None) -> Floats:
    """[B, 5] from item weights [B, N]."""
    weight = weight.astype(np.float64)
    positives, negatives, tp, fp, decided = (
        weight @ mask.astype(np.float64)
        for mask in (
            entries.positive,
            entries.negative,
            entries.positive & entries.decided,
            entries.negative & entries.decided,
            entries.decided,
        )
    )  # [B, C] each
    items = weight.sum(axis=1, keepdims=True)
    c, d = observation_chances(positives, negatives, items, kept)
    there, right = positives / c, tp / c
    wrong = np.where(np.isnan(d), np.maximum(decided - right, 0), fp / d)
    evaluated = positives > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        f1 = np.where(evaluated, 2 * right / (right + wrong + there), np.nan)
        of_rank = kept is not None
        ap = np.stack(
            [_average_precision(entries, label, weight, c, d, of_rank) for label in range(c.shape[1])], axis=1
        )
        all_right, all_wrong = np.nansum(right, axis=1), np.nansum(np.where(np.isnan(right), np.nan, wrong), axis=1)
        all_there = np.nansum(there, axis=1)
        hits = (tp.sum(axis=1) / positives.sum(axis=1)) if np.isnan(c).all() else all_right / all_there
        return np.stack(
            [
                _mean(ap),
                _mean(f1),
                np.where(np.isnan(c).all(axis=1), np.nan, all_right / (all_right + all_wrong)),
                hits,  # with one c for all labels it needs no c
                np.where(np.isnan(c).all(axis=1), np.nan, 2 * all_right / (all_right + all_wrong + all_there)),
            ],
            axis=1,
        )


def _average_precision(entries: Observed, label: int, weight: Floats, c: Floats, d: Floats, of_rank: bool) -> Floats:
    """[B]; NaN where no observed positive was drawn. `of_rank`: divide by the rank and not by its estimate."""
    score = entries.scores[:, label]
    order = np.argsort(-score, kind="stable")
    positive, negative = entries.positive[order, label], entries.negative[order, label]
    # Items with equal scores share one threshold, the end of their tie.
    ends = np.searchsorted(-score[order], -score[order][positive], side="right") - 1
    drawn = weight[:, order]
    above = np.cumsum(drawn, axis=1)[:, ends]  # [B, P]
    tp, fp = (np.cumsum(drawn * mask, axis=1)[:, ends] for mask in (positive, negative))
    at = drawn[:, positive]
    share, other = c[:, label : label + 1], d[:, label : label + 1]
    right = 1 + np.maximum(tp - 1, 0) / share
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = right / (above if of_rank else right + fp / other)
        return np.asarray((at * np.where(at > 0, precision, 0.0)).sum(axis=1) / at.sum(axis=1))


def _mean(values: Floats) -> Floats:
    """Over the labels that have a value."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1))


@dataclass(frozen=True, slots=True)
class HiddenCounts(Sums):
    """How many positives the partial labels hide, and how many of these the model decided for.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> truth = raretag.Targets.from_dense([[1, 0], [1, 1], [0, 1]])
    >>> raretag.metrics.HiddenCounts.of(logits > -0.1, truth, partial=targets).hidden
    tensor([0, 1])
    """

    hidden: Tensor  # [C] int64
    found: Tensor  # [C] int64, hidden positives that the model decided for

    @classmethod
    def of(cls, decided: Tensor, truth: Targets, partial: Targets) -> HiddenCounts:
        """`decided` [N, C] bool, as `raretag.metrics.decisions.decide` makes it from scores and thresholds."""
        check_decided(decided, truth)
        if truth.value.shape != partial.value.shape:
            raise UserError(
                f"truth {tuple(truth.value.shape)} and partial labels {tuple(partial.value.shape)} differ in shape: "
                "expected the same items and labels in both"
            )
        hidden = positives(truth) & partial.unknown
        return cls(hidden.sum(0), (hidden & decided).sum(0))


def hidden_recall(counts: HiddenCounts) -> Tensor:
    """Recall of the hidden positives of each class [C]; NaN for classes without a hidden positive.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> truth = raretag.Targets.from_dense([[1, 0], [1, 1], [0, 1]])
    >>> raretag.metrics.hidden_recall(raretag.metrics.HiddenCounts.of(logits > -0.1, truth, targets))
    tensor([nan, 1.], dtype=torch.float64)
    """
    return counts.found / counts.hidden.double()


def micro_hidden_recall(counts: HiddenCounts) -> float:
    """Recall over all hidden positives; NaN if nothing is hidden.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> truth = raretag.Targets.from_dense([[1, 0], [1, 1], [0, 1]])
    >>> raretag.metrics.micro_hidden_recall(raretag.metrics.HiddenCounts.of(logits > -0.1, truth, targets))
    1.0
    """
    hidden = int(counts.hidden.sum())
    return int(counts.found.sum()) / hidden if hidden else math.nan
