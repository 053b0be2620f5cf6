r"""What share of its positives is marked, label by label: frequent labels are often marked more completely.

Jain, Prabhu, Varma, "Extreme Multi-label Loss Functions", KDD 2016, take the propensity P(marked | positive) of a label
with N_l marks for a logistic function of log N_l, with constants that are decreed. The same curve, fitted here::

    c      share of all positives that are marked, weighed as label_frequency.py has it
    n_l    marks of label l;  u_l  the posterior mean of the log odds of c_l, from the scores of the label alone

    logit c_l = logit c + d_l,   d_l = b (log n_l - mean of log n, weighed by n^2)                           (1)
    b = sum w (x - mean x)(u - mean u) / (1 + sum w (x - mean x)^2),   x = log n,  w = n / (n + KAPPA)       (2)
    b counts if it is at least CLEAR standard errors above 0; else all labels share c

c is read off the highest scores, which are mostly those of frequent labels: hence the square in (1).

A label's own u_l is not used beyond the line: a hard label and one that is seldom marked look alike, and drawn to the
line part of the way they were further from the truth than the line alone. For the same reason a line that rises need
not mean what it says where rare labels are harder; hence CLEAR. It, and the square, are those of a few under which c_l
was nearest to the truth on four data sets with positives hidden on purpose (docs/benchmarks/propensities.md).

Where positives are marked whatever their score, an unmarked entry with log odds t of a mark is positive with

    P(positive | t, not marked) = (1 - c_l) / c_l exp(t) = (1 - c) / c exp(t - d_l)       at most 1          (3)

so what is known for the common share holds for t - d_l (Elkan and Noto, KDD 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit, logit
from torch import Tensor

from raretag.core.targets import Targets
from raretag.metrics.label_frequency import (
    Bools,
    Floats,
    LabelFrequency,
    estimate_label_frequency,
    log_odds_of_share,
    on_one_scale,
)

FEWEST = 10  # marks of a label from which its scores show something
KAPPA = 20.0
CLEAR = 3.0
_LEAST_LABELS, _MOST_LABELS = 5, 60  # that the line is fitted to
_RIDGE = 1.0


@dataclass(frozen=True)
class MarkedShares:
    """c_l, as log odds beside those of the common share."""

    frequency: LabelFrequency  # c
    log_ratio: Floats  # d [C]
    doubt: float  # standard error of b, as a share of it; 0 where all labels share c

    @property
    def vary(self) -> bool:
        return bool(self.log_ratio.any())

    def shares(self, common: float | None = None) -> Floats:
        """c_l [C]; `common` is c, where it is not the estimated one."""
        c = self.frequency.interval()[0] if common is None else common
        return np.asarray(expit(logit(np.clip(c, 1e-3, 1 - 1e-3)) + self.log_ratio))


def estimate_marked_shares(
    t: Floats, marked: Bools, counted: Bools, share: float | None = None, *, by_label: bool = True
) -> MarkedShares:
    """From log odds of a mark [N, C], out of fold, on the entries that are counted; `share` is c, if it is known."""
    usable = counted & marked.any(axis=0)
    frequency = estimate_label_frequency(t[usable], marked[usable], share)
    log_ratio, doubt = log_ratios(t, marked, counted) if by_label else (np.zeros(t.shape[1]), 0.0)
    return MarkedShares(frequency, log_ratio, doubt)


def log_ratios(t: Floats, marked: Bools, counted: Bools) -> tuple[Floats, float]:
    """d [C] of equation 1, and the standard error of b as a share of it."""
    n = (marked & counted).sum(axis=0).astype(np.float64)
    none = np.zeros(len(n)), 0.0
    labels = np.flatnonzero(n >= FEWEST)
    if len(labels) < _LEAST_LABELS:
        return none
    labels = labels[np.argsort(n[labels], kind="stable")]
    labels = labels[np.unique(np.linspace(0, len(labels) - 1, min(len(labels), _MOST_LABELS)).astype(np.int64))]
    u = np.array([log_odds_of_share(t[counted[:, one], one], marked[counted[:, one], one]) for one in labels])
    x, w = np.log(n[labels]), n[labels] / (n[labels] + KAPPA)
    apart, above = x - np.average(x, weights=w), u - np.average(u, weights=w)
    information = (w * apart**2).sum() + _RIDGE
    b = float((w * apart * above).sum() / information)
    error = float(np.sqrt((w * (above - b * apart) ** 2).sum() / (len(x) - 2) / information))
    if b <= CLEAR * error or b <= 0:
        return none
    seen = np.log(np.maximum(n, FEWEST))  # below FEWEST nothing was looked at: no further down the line
    return b * (seen - np.average(seen, weights=n**2)), error / b


def marked_shares(logits: Tensor, targets: Targets, *, by_label: bool = True) -> MarkedShares | None:
    """Of a data set with out-of-fold logits [N, C]; None where negatives were observed or each item has one mark.

    Observed negatives say more than any share; and where an item's single mark was chosen among its labels, whether a
    label is marked depends on the others.
    """
    observed, value = targets.observed.cpu().numpy(), targets.value.cpu().numpy()
    positive = observed & (value == 1)
    if not positive.any() or (observed & ~positive).any() or bool((positive.sum(axis=1) == 1).all()):
        return None
    everything = np.ones_like(positive)
    t = on_one_scale(logits.detach().cpu().double().numpy(), positive, everything)
    return estimate_marked_shares(t, positive, everything, by_label=by_label)


def likely_missing(logits: Tensor, targets: Targets, found: MarkedShares) -> Tensor:
    """[N, C] bool: unknown entries that are sooner positive than not, by equation 3."""
    positive = targets.observed & (targets.value == 1)
    marked = positive.cpu().numpy()
    t = on_one_scale(logits.detach().cpu().double().numpy(), marked, np.ones_like(marked))
    likely = t - logit(np.clip(found.shares(), 1e-3, 1 - 1e-3)) > np.log(0.5)
    return torch.from_numpy(likely) & ~targets.observed.cpu()
