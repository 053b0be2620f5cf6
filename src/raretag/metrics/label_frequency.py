r"""How many of the true positives were marked (the label frequency), and what follows for entries that are not marked.

First, scores of all labels on one scale, the log odds that an entry is marked::

    z   out-of-fold logits [N, C], of any method, so on a scale of their own for each label
    t = a_c + b_c z,  sigma(t) = P(marked | z)

This is Platt scaling for each label, shrunk: three positives of a label do not fix its slope, so slopes are drawn to
the mean slope of all labels. The order within a label stays that of its scores. Then, paper and code::

    t   log odds of being marked, out of fold          q = sigma(a + b t)   P(positive | t)
    c   label frequency: P(marked | positive)          e = P(marked | negative), the wrong marks

    P(marked | t)                = e (1 - q) + c q
    P(positive | t, not marked)  = (1 - c) q / (1 - P(marked | t))
    P(negative | t, marked)      = e (1 - q) / P(marked | t)

Elkan and Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008, is the case e = 0 (their c is
ours). It assumes that which positives were marked does not depend on the score ("selected completely at random").
Even then positives alone do not fix c: half of the positives marked, or all of them marked and a model that cannot do
better, look alike, but for the shape of the curve. Where scores reach the plateau c q -> c, the likelihood is narrow;
where they do not, it is flat. Two readings of the low end (e = 0, e free) share the weight, as the shape there is not
known either.

The curve is not exactly logistic, and with thousands of entries its likelihood is surer than that deserves. So it
counts with the power TRUST only, and a second fact joins it: what stands at the top is mostly positive. With m the
marked share among the highest scores (as many as a quarter of the marked entries), Q = m / c are the positives there,

    Q ~ 1/2 Beta(9, 3/2) + 1/2 Beta(2, 2)

where the second part is for weak models. TRUST, the quarter and the prior are those of 840 choices under which the true
c was most probable, over positives that were hidden on purpose in seven data sets; whether promises hold was then
measured on other draws and on three other sets (benchmarks/promises.py, docs/review.md). Items without any mark tell
more of c than the scores do (empty_items.py), where there are such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import beta

from raretag.metrics.empty_items import EmptyItems
from raretag.metrics.outside import shrunk_lines

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NEVER = -60.0  # the log odds of a label that nobody marked, about which nothing is known

GRID = np.concatenate([np.arange(0.06, 0.98, 0.02), [0.99, 0.999]])  # label frequencies that are weighed
COARSE = np.array([0.08, 0.16, 0.24, 0.32, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95])  # those of a single label
_REGION = 3.0  # the fit looks at this many entries for each marked one: the top, which suggestions come from
_BINS = 400  # of scores, for the likelihood
TRUST = 0.05  # power of the likelihood of the shape
_TOP = 0.25  # region of the highest scores, as a share of the marked entries
_TOP_LEAST, _TOP_LEAST_OF_LABEL = 30, 5  # entries of it
_PURE, _IMPURE = 9.0, 1.5  # of the prior of the share of positives at the top


def on_one_scale(scores: Floats, marked: Bools, counted: Bools) -> Floats:
    """t [N, C]; `marked` is what is predicted, `counted` are the entries that it is learnt from."""
    learnt = scores[counted]
    centre, spread = (learnt.mean(), learnt.std() or 1.0) if len(learnt) else (0.0, 1.0)
    del learnt  # as large as the scores
    z = (scores - centre) / spread
    np.clip(z, -30, 30, out=z)
    intercept, slope = shrunk_lines(z, marked, counted)
    t = intercept + slope * z
    t[:, (marked & counted).sum(axis=0) == 0] = NEVER
    return np.asarray(t)


@dataclass(frozen=True)
class LabelFrequency:
    """What the marks reveal of c: a weight for each possible share, and the curve that belongs to it."""

    share: Floats  # [S] c
    weight: Floats  # [S], adds up to 1
    curve: Floats  # [S, 3]: a, b and the log odds of e
    given: bool  # by the user, not estimated
    shape_weight: Floats  # [S], by the shape of the curve alone, for marks that are wrong

    def interval(self, mass: float = 0.9) -> tuple[float, float, float]:
        """The median of c, and the middle `mass` of it."""
        order = np.argsort(self.share, kind="stable")
        below = np.cumsum(self.weight[order])
        low, middle, high = (
            float(self.share[order][min(int(np.searchsorted(below, level - 1e-12)), len(order) - 1)])
            for level in ((1 - mass) / 2, 0.5, (1 + mass) / 2)
        )
        return middle, low, high

    def missing(self, t: Floats) -> Floats:
        """P(positive | t, not marked), averaged over what c may be."""
        return np.asarray(self.weight @ self._each_missing(t))

    def wrong(self, t: Floats) -> Floats:
        """P(negative | t, marked)."""
        q, e = self._curves(t)
        return np.asarray(self.shape_weight @ (e * (1 - q) / np.maximum(e * (1 - q) + self.share[:, None] * q, 1e-300)))

    def _each_missing(self, t: Floats) -> Floats:
        q, e = self._curves(t)
        marked = e * (1 - q) + self.share[:, None] * q
        return np.asarray((1 - self.share[:, None]) * q / np.maximum(1 - marked, 1e-300))

    def _curves(self, t: Floats) -> tuple[Floats, Floats]:
        """q [S, n] and e [S, 1]."""
        return expit(self.curve[:, :1] + self.curve[:, 1:2] * t[None, :]), expit(self.curve[:, 2:])


def estimate_label_frequency(
    t: Floats,
    marked: Bools,
    share: float | None = None,
    *,
    blind: bool = False,
    complete: bool = False,
    empty: EmptyItems | None = None,
) -> LabelFrequency:
    """From entries [n] and their marks; `share` is c, if it is known.

    `blind`: trust nothing that the scores show; `complete`: somebody has looked at all entries, so that c is 1 but for
    wrong marks, and only the shape is asked for; `empty`: what items without a mark tell.
    """
    count = int(marked.sum())
    top = np.argsort(-t, kind="stable")[: max(int(_REGION * count), 200)]
    x, k, n = _binned(t[top], marked[top])
    shares = GRID if share is None else np.array([min(share, 0.999)])
    found = [_profile(x, k, n, shares, wrong_marks) for wrong_marks in (False, True)]
    curves = np.concatenate([curve for curve, _ in found])

    # One reading fits at least as well by construction, so each is weighed within itself and both count the same.
    def by_shape(trust: float) -> Floats:
        return np.concatenate([_normal(np.exp((low.min() - low) * trust)) for _, low in found]) / 2

    weights = by_shape(0.0 if blind else 1.0 if complete else TRUST)
    if share is None and not blind and not complete:
        weights = _normal(weights * np.tile(_prior_of_top(t, marked, shares) * np.gradient(shares), 2))
        weights = weights if empty is None else empty.weighed(weights, np.tile(shares, 2))
    return LabelFrequency(np.tile(shares, 2), weights, curves, share is not None, by_shape(0.0 if blind else 1.0))


def log_odds_of_share(t: Floats, marked: Bools) -> float:
    """The posterior mean of logit c, for the entries [n] of one label: too few for more than a coarse look."""
    top = np.argsort(-t, kind="stable")[: max(int(_REGION * marked.sum()), 200)]
    _, low = _profile(*_binned(t[top], marked[top]), COARSE, wrong_marks=False)
    prior = _prior_of_top(t, marked, COARSE, _TOP_LEAST_OF_LABEL) * np.gradient(COARSE)
    return float(_normal(np.exp((low.min() - low) * TRUST) * prior) @ logit(COARSE))


def _prior_of_top(t: Floats, marked: Bools, shares: Floats, least: int = _TOP_LEAST) -> Floats:
    """How probable each share c [S] is, from the marked share m at the top: Q = m / c is mostly near 1."""
    count, order = int(marked.sum()), np.argsort(-t, kind="stable")
    top = order[: max(int(_TOP * count), least)]
    found = int(marked[top].sum())
    draws = np.random.default_rng(0).beta(found + 0.5, len(top) - found + 0.5, 60)  # m is uncertain itself
    purity = draws[:, None] / shares[None, :]  # [60, S]
    inside = np.clip(purity, 1e-6, 1 - 1e-6)
    density = (beta.pdf(inside, _PURE, _IMPURE) + beta.pdf(inside, 2, 2)) / 2
    return np.asarray(np.where(purity < 1, density * purity, 0.0).mean(axis=0) + 1e-12)


def _binned(t: Floats, marked: Bools) -> tuple[Floats, Floats, Floats]:
    """Mean score, marked entries and all entries of each bin: the likelihood needs no more."""
    width = max(float(np.ptp(t)), 1e-9) / _BINS
    place = np.minimum(((t - t.min()) / width).astype(np.int64), _BINS - 1)
    n = np.bincount(place, minlength=_BINS).astype(np.float64)
    some = n > 0
    k = np.bincount(place, marked, _BINS)[some].astype(np.float64)
    return np.bincount(place, t, _BINS)[some] / n[some], k, n[some]


def _profile(x: Floats, k: Floats, n: Floats, shares: Floats, wrong_marks: bool) -> tuple[Floats, Floats]:
    """The best curve for each share [S, 3], and its negative log-likelihood [S]; each fit starts from its neighbour."""
    middle = int(np.argmin(np.abs(shares - 0.6)))
    curves, lows = np.zeros((len(shares), 3)), np.zeros(len(shares))
    for steps in (range(middle, len(shares)), range(middle - 1, -1, -1)):
        start = np.array([0.5, 1.0, -6.0]) if not curves[middle].any() else curves[middle]
        for s in steps:
            fitted = minimize(_loss, start, (x, k, n, shares[s], wrong_marks), "L-BFGS-B", jac=True, bounds=_BOUNDS)
            start = curves[s] = fitted.x
            lows[s] = fitted.fun
    if not wrong_marks:
        curves[:, 2] = -60.0
    return curves, lows


_BOUNDS = ((-30, 30), (0.05, 20), (-14, logit(0.2)))


def _loss(w: Floats, x: Floats, k: Floats, n: Floats, c: float, wrong_marks: bool) -> tuple[float, Floats]:
    q = expit(w[0] + w[1] * x)
    e = expit(w[2]) if wrong_marks else 0.0
    g = np.clip(e * (1 - q) + c * q, 1e-12, 1 - 1e-12)
    slope = -(k / g - (n - k) / (1 - g))  # of the loss, by g
    by_t = slope * (c - e) * q * (1 - q)
    last = (slope * (1 - q)).sum() * e * (1 - e) if wrong_marks else 0.0
    # A weak pull to a = 0, b = 1, where the scale of scores has put them, so that a flat likelihood has an end.
    pull = 0.005 * (w[0] ** 2 + (w[1] - 1) ** 2)
    value = -(k * np.log(g) + (n - k) * np.log1p(-g)).sum() + pull
    return float(value), np.array([by_t.sum() + 0.01 * w[0], (by_t * x).sum() + 0.01 * (w[1] - 1), last])


def _normal(weight: Floats) -> Floats:
    return np.asarray(weight / weight.sum())
