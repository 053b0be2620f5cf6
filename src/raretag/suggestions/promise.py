r"""What share of a list of suggestions will turn out to be right, with an interval.

Where only positives are marked, nothing about the model has to be believed but its order. If a share c of the
positives was marked, whatever their score, then above a cut that L marked entries pass

    H ~ NegativeBinomial(L + 1/2, c)        hidden positives, on average (L + 1/2) (1 - c) / c

so the precision of K suggestions is H / K. c is averaged over what it may be; where labels have shares of their own
(metrics/marked_shares.py), H is the sum over labels. Where both states were observed, observed
entries above the cut give it directly. Where somebody has answered a random part of the list, the interval is the exact
binomial one of Clopper and Pearson and assumes nothing; such answers also correct the probabilities of later lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri
from scipy.stats import beta

from raretag.metrics.label_frequency import Bools, Floats, LabelFrequency
from raretag.metrics.marked_shares import MarkedShares
from raretag.suggestions.answers import NO, YES, Answer

MASS = 0.9
_DRAWS = 4000
_ONE_BY_ONE, _GROUPS = 1000, 100  # suggestions, up to which each is drawn; into how many groups more of them are put
_PRIOR = 3.0  # deviation of the shift before anybody has answered


@dataclass(frozen=True)
class Promise:
    """The expected share of right suggestions among the first `size`, and its 90 % interval."""

    size: int
    expected: float
    low: float
    high: float

    @classmethod
    def of_draws(cls, size: int, draws: Floats) -> Promise:
        """With the shortest interval that holds 90 % of the draws.

        A share cannot exceed 1. Where many draws are cut there, nothing is above the interval, and one between the
        5 % and the 95 % quantile would hold 95 %.
        """
        shares = np.sort(np.clip(draws, 0.0, 1.0))
        inside = int(np.ceil(MASS * len(shares)))
        widths = shares[inside - 1 :] - shares[: len(shares) - inside + 1]
        ties = np.flatnonzero(widths <= widths.min() + 1e-9)  # many, as shares of few suggestions are few numbers
        start = int(ties[len(ties) // 2])
        return cls(size, float(np.median(shares)), float(shares[start]), float(shares[start + inside - 1]))

    @classmethod
    def read(cls, content: dict[str, Any]) -> Promise:
        """From `as_dict`."""
        low, high = content["interval"]
        return cls(int(content["size"]), float(content["expected"]), float(low), float(high))

    def covers(self, precision: float) -> bool:
        return self.low <= precision <= self.high

    def as_dict(self) -> dict[str, Any]:
        return {"size": self.size, "expected": self.expected, "interval": [self.low, self.high], "mass": MASS}

    def __str__(self) -> str:
        return f"top {self.size:,}: {self.expected:.2f} [{self.low:.2f}, {self.high:.2f}]"


def passing(t: Floats, chosen: Bools, by_rank: Bools, counted: Bools) -> NDArray[np.int64]:
    """How many `counted` entries of each label stand above the cut that the chosen ones make; all arrays are [N, C].

    A label's cut is the lowest score that was chosen by rank, or lower where a quota took more of that label.
    """
    common = t[by_rank].min() if by_rank.any() else np.inf
    lowest = np.where(chosen, t, np.inf).min(axis=0)  # [C]
    return np.asarray((counted & (t >= np.minimum(common, lowest))).sum(axis=0))


def from_marks(size: int, passed: int, frequency: LabelFrequency) -> Promise:
    """`passed`: the marked entries above the cut."""
    generator = np.random.default_rng(0)  # the same list, the same promise
    c = generator.choice(frequency.share, _DRAWS, p=frequency.weight)
    return Promise.of_draws(size, generator.negative_binomial(passed + 0.5, c) / max(size, 1))


def from_marks_by_label(size: int, passed: NDArray[np.int64], shares: MarkedShares) -> Promise:
    """The same with `passed` [C]; the line of the shares is as uncertain as its slope."""
    if not shares.vary or not passed.any():
        return from_marks(size, int(passed.sum()), shares.frequency)
    generator = np.random.default_rng(0)
    c = generator.choice(shares.frequency.share, _DRAWS, p=shares.frequency.weight)
    steeper = np.maximum(generator.normal(1.0, shares.doubt, _DRAWS), 0.0)
    some = np.flatnonzero(passed)
    each = expit(logit(c)[:, None] + steeper[:, None] * shares.log_ratio[some])  # [D, labels]
    marks = passed[some] * (1 + 0.5 / passed.sum())
    return Promise.of_draws(size, generator.negative_binomial(marks, each).sum(axis=1) / max(size, 1))


def from_both(size: int, positives: int, negatives: int, log_ratio: Floats) -> Promise:
    """Observed entries above the cut; `log_ratio` are draws of how much rarer positives are among unknown entries."""
    generator = np.random.default_rng(0)
    p = generator.beta(positives + 0.5, negatives + 0.5, _DRAWS)
    odds = p / np.maximum(1 - p, 1e-12) * np.exp(generator.choice(log_ratio, _DRAWS))
    return Promise.of_draws(size, generator.binomial(size, odds / (1 + odds)) / max(size, 1))


def from_probabilities(size: int, log_odds: Floats, shift: float, deviation: float) -> Promise:
    """Of suggestions whose probabilities were corrected by answers: log odds + shift, which is itself uncertain."""
    generator = np.random.default_rng(0)
    shifts = generator.normal(shift, deviation, 400)
    return Promise.of_draws(size, _shares(log_odds, shifts, generator))


def of_part(whole: Promise, listed: Floats, part: Floats) -> Promise:
    """What the promise of a whole list says of a part of it; both are log odds of the suggestions.

    The ends of the whole list's interval are shifts of all its log odds; the part has the same shift, and chance of its
    own, as it is smaller.
    """
    ends = [_shift_to(listed, share) for share in (whole.low, whole.expected, whole.high)]
    generator = np.random.default_rng(0)
    normal = generator.normal(size=400)
    # two half-normals, so that as much lies beyond either end as before: all of it at one end if the other is 0 or 1
    below, above = ((1 - MASS) / (1 if bounded else 2) for bounded in (whole.high >= 1, whole.low <= 0))
    lower, upper = (ends[1] - ends[0]) / ndtri(1 - below), (ends[2] - ends[1]) / ndtri(1 - above)
    shifts = ends[1] + np.where(normal < 0, lower, upper) * normal
    return Promise.of_draws(len(part), _shares(part, shifts, generator))


def _shares(log_odds: Floats, shifts: Floats, generator: np.random.Generator) -> Floats:
    """What share of the suggestions is right, a draw for each shift; long lists are drawn in groups of like odds."""
    if len(log_odds) <= _ONE_BY_ONE:
        each = expit(log_odds[None, :] + shifts[:, None])
        return np.asarray((generator.random(each.shape) < each).mean(axis=1))
    middle, size = _grouped(log_odds)
    p = expit(middle[None, :] + shifts[:, None])
    return np.asarray(generator.binomial(size[None, :], p).sum(axis=1) / len(log_odds))


def _grouped(log_odds: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Means and sizes of groups of like odds."""
    groups = np.array_split(np.sort(log_odds), _GROUPS)
    return np.array([group.mean() for group in groups]), np.array([len(group) for group in groups])


def _shift_to(log_odds: Floats, share: float) -> float:
    """The shift of all log odds that makes `share` of them right, on average."""
    low, high = -30.0, 30.0
    some, weight = _grouped(log_odds) if len(log_odds) > _ONE_BY_ONE else (log_odds, None)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.average(expit(some + middle), weights=weight) < share else (low, middle)
    return (low + high) / 2


def exact(right: int, answered: int) -> Promise:
    """A random part of a list was answered."""
    if not answered:
        return Promise(0, 0.5, 0.0, 1.0)
    tail = (1 - MASS) / 2
    low = 0.0 if right == 0 else float(beta.ppf(tail, right, answered - right + 1))
    high = 1.0 if right == answered else float(beta.ppf(1 - tail, right + 1, answered - right))
    return Promise(answered, right / answered, low, high)


@dataclass(frozen=True)
class Audit:
    """What the answers to an earlier list reveal of that list, and of the suggestions still to come."""

    listed: int  # suggestions in the file
    answered: int  # with yes or no
    right: int
    is_random: bool  # answered in the order of the column `audit`
    shift: float  # of the log odds of all probabilities
    deviation: float

    def promise(self) -> Promise:
        """Of the audited list, if a random part of it was answered."""
        return exact(self.right, self.answered)

    def sentence(self) -> str:
        p = self.promise()
        counted = f"{self.right} of {self.answered} answers are yes: {p.expected:.2f} [{p.low:.2f}, {p.high:.2f}]"
        if self.is_random:
            return f"{counted}, exact for all {self.listed:,} suggestions of the audited list"
        return f"{counted}; not answered in the order of `audit`, so exact for the answered ones only"


def audit_answers(answers: Sequence[Answer], log_odds: Floats) -> Audit:
    """`log_odds` [n]: those of the model for each answer that is yes or no, in order; NaN where it has none."""
    missing = [answer for answer in answers if answer.kind == "missing"]
    sure = [answer for answer in missing if answer.answer in (YES, NO)]
    right = np.array([answer.answer == YES for answer in sure], np.float64)
    tried = [answer.audit for answer in missing if answer.answer is not None]
    places = [place for place in tried if place is not None]
    is_random = bool(places) and len(places) == len(tried) and max(places) <= 1.1 * len(places) + 1
    known = np.isfinite(log_odds)
    shift, deviation = shift_by_answers(log_odds[known], right[known])
    return Audit(len(missing), len(sure), int(right.sum()), is_random, shift, deviation)


def shift_by_answers(log_odds: Floats, right: Floats) -> tuple[float, float]:
    """The number that, added to all log odds, explains the answers best, and its deviation."""
    shift = 0.0
    for _ in range(50):
        p = expit(log_odds + shift)
        curvature = float((p * (1 - p)).sum()) + 1 / _PRIOR**2
        step = (float((p - right).sum()) + shift / _PRIOR**2) / curvature
        shift -= float(np.clip(step, -1, 1))
        if abs(step) < 1e-9:
            break
    p = expit(log_odds + shift)
    return shift, float(1 / np.sqrt((p * (1 - p)).sum() + 1 / _PRIOR**2))
