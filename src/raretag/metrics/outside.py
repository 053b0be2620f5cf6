r"""Scores from outside (another model, rules, similarities) on the scale of logits, and how much they count there.

Paper and code::

    s      outside score of an item and a label; there need not be one
    x      s, or its log odds where all scores lie in [0, 1]; less the label's mean, in units of its deviation
    sigma(a_c + b_c x) = P(marked | x)        Platt scaling of each label, shrunk: see `shrunk_lines`
    e = b_c x, 0 at least in b_c              evidence; 0 where there is no score
    z' = z + g_c e,   g_c = g k / (k + n_c)   z: logits of the model;  n_c: positives that it was fitted to

b_c comes from the labels of the training items, which the outside scores never saw: scores that say nothing get a slope
near 0. A model knows little of a rare label, so the scores may count more there: k is 10, or infinite. Of g = 0, 1/4,
1/2, 1 and both k the smallest is taken whose mean average precision is within half a standard error (of the paired
differences over labels) of the best one, on items that the model was not fitted to. So scores that do not help the
model get g = 0 and change nothing, however well they do alone; so do those that add less than LEAST_GAIN, or less than
one standard error.

g is 1 at most: that is what two independent opinions get. Folds ask for more where labels are rare, since a model that
lacks a fold knows less of them than the final one, which needs the scores less (docs/benchmarks/prior.md).

Platt, "Probabilistic Outputs for Support Vector Machines", 1999.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor

from raretag.core.targets import Targets
from raretag.metrics.decision_cuts import MARKED
from raretag.metrics.precision_curve import average_precision

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)  # g, but for 0
MOST = 1.0  # g
CLEAR = 1.0  # standard errors that a share must be ahead of none; with 2 good scores are lost where labels are few
FEW = (10.0, np.inf)  # k
WITHIN = 0.5  # standard errors that a smaller g may be below the best
LEAST_GAIN = 1e-3  # of mean average precision that is worth depending on scores from outside
_EDGE = 1e-4  # probabilities nearer to 0 or 1 than this have no larger log odds
_WIDE, _SLOPE = 3.0, 0.3  # prior deviations of an intercept, and of a slope as a share of the mean slope
_LEAST = 1e-3  # a slope below 0 would turn the order of a label around
_AT_ONCE = 2**21  # entries that are summed together


@dataclass(frozen=True)
class Outside:
    """How outside scores become evidence; `share` is g_c."""

    odds: bool  # scores are probabilities, of which the log odds count
    centre: Floats  # [C]
    spread: Floats  # [C]
    intercept: Floats  # a [C]
    slope: Floats  # b [C]
    share: Floats  # [C]

    @classmethod
    def fitted(cls, scores: Tensor, targets: Targets, *, may_be_odds: bool = True) -> Outside:
        """To scores [N, C], NaN where there is none, of items with these labels; they do not count yet."""
        s, given = scores.double().numpy(), ~scores.isnan().numpy()
        odds = may_be_odds and bool(given.any()) and float(s[given].min()) >= 0 and float(s[given].max()) <= 1
        x = _unit(s, odds)
        number = np.maximum(given.sum(0), 1)
        centre = np.where(given, x, 0.0).sum(0) / number
        spread = np.sqrt(np.where(given, (x - centre) ** 2, 0.0).sum(0) / number)
        spread = np.where(spread > 1e-9, spread, np.inf)  # a score that is always the same says nothing
        known = targets.assuming_negatives()
        x = np.where(given, (x - centre) / spread, 0.0)
        intercept, slope = shrunk_lines(x, (known.positive > 0.5).numpy(), known.observed.numpy() & given, weak=True)
        return cls(odds, centre, spread, intercept, slope, np.zeros_like(slope))

    @property
    def counts(self) -> bool:
        return bool(self.share.any())

    def evidence(self, scores: Tensor) -> Tensor:
        """e [N, C], float32."""
        return torch.from_numpy((self.slope * self._x(scores)).astype(np.float32))

    def added(self, logits: Tensor, scores: Tensor) -> Tensor:
        """z'."""
        return logits + torch.from_numpy(self.share).to(logits) * self.evidence(scores).to(logits)

    def posterior(self, scores: Tensor, targets: Targets) -> Tensor:
        """[N, C] probability that an unknown label is there, NaN where there is no score.

        Where negatives of a label were observed, that is P(marked | x). Else m = P(marked | x) is c P(there | x) with
        c = MARKED, and of what is not marked (1 - c) / c m / (1 - m) is there (Elkan and Noto, KDD 2008).
        """
        m = np.clip(expit(self.intercept + self.slope * self._x(scores)), 1e-9, 1 - 1e-9)
        both = (targets.observed & (targets.value < 0.5)).any(0).numpy()
        missing = np.minimum((1 - MARKED) / MARKED * m / (1 - m), 1.0)
        found = torch.from_numpy(np.where(both, m, missing)).float()
        return torch.where(scores.isnan(), torch.nan, found)

    def _x(self, scores: Tensor) -> Floats:
        x = (_unit(scores.double().numpy(), self.odds) - self.centre) / self.spread
        return np.asarray(np.clip(np.nan_to_num(x, nan=0.0), -30, 30))

    def as_json(self) -> dict[str, Any]:
        spread = [float(one) if np.isfinite(one) else None for one in self.spread]
        lists = {name: getattr(self, name).tolist() for name in ("centre", "intercept", "slope", "share")}
        return {"odds": self.odds, "spread": spread, **lists}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> Outside:
        spread = np.array([np.inf if one is None else one for one in tree["spread"]], np.float64)
        names = ("centre", "intercept", "slope", "share")
        centre, intercept, slope, share = (np.array(tree[name], np.float64) for name in names)
        return cls(bool(tree["odds"]), centre, spread, intercept, slope, share)


def _unit(s: Floats, odds: bool) -> Floats:
    return np.asarray(logit(np.clip(s, _EDGE, 1 - _EDGE))) if odds else s


@dataclass(frozen=True)
class Weighed:
    """What held-out items say of outside scores."""

    outside: Outside  # with the share that was chosen
    chosen: str  # of `tried`
    tried: dict[str, float]  # mean average precision of each g, and of each g for rare labels only

    @property
    def sentence(self) -> str:
        gain = f"mAP {100 * self.tried['0']:.1f} without, {100 * self.tried[self.chosen]:.1f} with"
        return f"evidence is added to the logits, times {self.chosen} ({gain}, on items not learned from)"


def weighed(outside: Outside, logits: Tensor, scores: Tensor, targets: Targets, *, most: float = MOST) -> Weighed:
    """Choose g, up to `most`, and k by logits and scores [N, C] of items that the model was not fitted to."""
    known, evidence = targets.assuming_negatives(), outside.evidence(scores).to(logits)
    count = (known.positive > 0.5).sum(0)
    some = count >= 2
    shares = {"0": np.zeros(len(count))}
    for g in (one for one in SHARES if one <= most):
        for k in FEW:
            rare = 1.0 if k == np.inf else k / (k + count.double().numpy())
            shares[f"{g:g}" if k == np.inf else f"{g:g}, less for frequent labels"] = g * rare * np.ones(len(count))
    if not some.any() or scores.isnan().all():
        return Weighed(outside, "0", {})
    tried = {
        name: average_precision(logits + torch.from_numpy(share).to(logits) * evidence, known)[some]
        for name, share in shares.items()
    }
    means = {name: float(one.nanmean()) for name, one in tried.items()}
    best = tried[max(means, key=lambda name: means[name])]
    if float((best - tried["0"]).nanmean()) < LEAST_GAIN:
        return Weighed(outside, "0", means)
    chosen = next(name for name, one in tried.items() if _is_close(best, one))
    if CLEAR * _error(tried[chosen], tried["0"]) > float((tried[chosen] - tried["0"]).nanmean()):
        return Weighed(outside, "0", means)  # of several tries one is ahead by luck
    return Weighed(replace(outside, share=shares[chosen]), chosen, means)


def _is_close(best: Tensor, other: Tensor) -> bool:
    return float((best - other).nanmean()) <= WITHIN * _error(best, other) + 1e-12


def _error(one: Tensor, other: Tensor) -> float:
    """The standard error over labels of the mean difference."""
    apart = (one - other)[~(one - other).isnan()]
    return float(apart.std(unbiased=False)) / sqrt(len(apart))


def shrunk_lines(z: Floats, marked: Bools, counted: Bools, *, weak: bool = False) -> tuple[Floats, Floats]:
    """Intercepts and slopes [C] of P(marked | z), learnt from the `counted` entries; z are on a scale of about 1.

    Three positives of a label do not fix its slope, so slopes are drawn to the mean slope of all labels. `weak`: the
    slopes may all be 0, as those of scores that say nothing; else a first guess of 1 draws them.
    """
    found = (marked & counted).sum(axis=0)
    ones = np.ones(z.shape[1])
    free = _newton(z, marked, counted, 0.0 * ones if weak else ones, (0.5 if weak else 2.0) * ones)
    mean = max(float(np.average(free[1], weights=np.maximum(found, 1e-9))), _LEAST)
    intercept, slope = _newton(z, marked, counted, mean * ones, _SLOPE * mean * ones)
    return intercept, np.maximum(slope, 0.0 if weak else _LEAST)


def _newton(z: Floats, marked: Bools, counted: Bools, slope: Floats, deviation: Floats) -> Floats:
    """Intercepts and slopes [2, C] with the highest posterior; the slope's prior is normal."""
    share = ((marked & counted).sum(axis=0) + 0.5) / (counted.sum(axis=0) + 1.0)
    start = np.log(share / (1 - share))  # of a label whose scores have no information
    w, sums = np.stack([start, slope]), np.empty((5, z.shape[1]))
    width = max(1, _AT_ONCE // max(1, len(z)))
    blocks = [slice(first, first + width) for first in range(0, z.shape[1], width)]
    for _ in range(50):
        for block in blocks:  # of labels, to bound the memory
            x, weight = z[:, block], counted[:, block]
            p = expit(w[0, block] + w[1, block] * x)
            residual, variance = weight * p - (marked[:, block] & weight), weight * p * (1 - p)
            sums[:, block] = [one.sum(0) for one in (residual, residual * x, variance, variance * x, variance * x * x)]
        g0 = sums[0] + (w[0] - start) / _WIDE**2
        g1 = sums[1] + (w[1] - slope) / deviation**2
        h00 = sums[2] + 1 / _WIDE**2
        h01 = sums[3]
        h11 = sums[4] + 1 / deviation**2
        determinant = h00 * h11 - h01**2
        step = np.stack([h11 * g0 - h01 * g1, h00 * g1 - h01 * g0]) / determinant
        w -= step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(0), 1e-12))  # no leaps
        if np.abs(step).max() < 1e-7:
            break
    return w
