r"""What share of a list of suggestions will turn out to be right, with an interval.

Where only positives are marked, nothing about the model has to be believed but its order. If a share c of the
positives was marked, whatever their score, then above a cut that L marked entries pass

    H ~ NegativeBinomial(L + 1/2, c)        hidden positives, on average (L + 1/2) (1 - c) / c

so the precision of K suggestions is H / K. c is averaged over what it may be. Where both states were observed, observed
entries above the cut say it directly. Where somebody has answered a random part of the list, the interval is the exact
binomial one of Clopper and Pearson and assumes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from raretag.suggest.kept import Kept
from raretag.suggest.scale import Bools, Floats

MASS = 0.95
_DRAWS = 4000


@dataclass(frozen=True)
class Promise:
    size: int
    expected: float
    low: float
    high: float

    @classmethod
    def of_draws(cls, size: int, draws: Floats) -> Promise:
        low, expected, high = np.quantile(np.clip(draws, 0.0, 1.0), [(1 - MASS) / 2, 0.5, (1 + MASS) / 2])
        return cls(size, float(expected), float(low), float(high))

    def covers(self, precision: float) -> bool:
        return self.low <= precision <= self.high

    def as_dict(self) -> dict[str, Any]:
        return {"size": self.size, "expected": self.expected, "interval": [self.low, self.high], "mass": MASS}

    def __str__(self) -> str:
        return f"top {self.size:,}: {self.expected:.2f} [{self.low:.2f}, {self.high:.2f}]"


def passing(t: Floats, chosen: Bools, by_rank: Bools, counted: Bools) -> int:
    """How many `counted` entries stand above the cut that the chosen ones make; all arrays are [N, C].

    A label's cut is the lowest score that was chosen by rank, or lower where a quota took more of that label.
    """
    common = t[by_rank].min() if by_rank.any() else np.inf
    lowest = np.where(chosen, t, np.inf).min(axis=0)  # [C]
    return int((counted & (t >= np.minimum(common, lowest))).sum())


def from_marks(size: int, passed: int, kept: Kept) -> Promise:
    """`passed`: the marked entries above the cut."""
    generator = np.random.default_rng(0)  # the same list, the same promise
    c = generator.choice(kept.share, _DRAWS, p=kept.weight)
    return Promise.of_draws(size, generator.negative_binomial(passed + 0.5, c) / max(size, 1))


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
    each = 1 / (1 + np.exp(-(log_odds[None, :] + shifts[:, None])))
    right = (generator.random(each.shape) < each).mean(axis=1)
    return Promise.of_draws(size, right)


def exact(right: int, answered: int) -> Promise:
    """A random part of a list was answered."""
    if not answered:
        return Promise(0, 0.5, 0.0, 1.0)
    tail = (1 - MASS) / 2
    low = 0.0 if right == 0 else float(beta.ppf(tail, right, answered - right + 1))
    high = 1.0 if right == answered else float(beta.ppf(1 - tail, right + 1, answered - right))
    return Promise(answered, right / answered, low, high)
