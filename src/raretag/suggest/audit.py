"""What answers say about a list of suggestions and about the ones still to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from raretag.suggest.answers import NO, YES, Answer
from raretag.suggest.promise import Promise, exact
from raretag.suggest.scale import Floats

_PRIOR = 3.0  # deviation of the shift before anybody has answered


@dataclass(frozen=True)
class Audit:
    listed: int  # suggestions in the file
    answered: int  # with yes or no
    right: int
    is_random: bool  # answered in the order of the column `audit`
    shift: float  # of the log odds of all probabilities
    deviation: float

    def promise(self) -> Promise:
        """Of the audited list, if a random part of it was answered."""
        return exact(self.right, self.answered)

    def said(self) -> str:
        p = self.promise()
        counted = f"{self.right} of {self.answered} answers are yes: {p.expected:.2f} [{p.low:.2f}, {p.high:.2f}]"
        if self.is_random:
            return f"{counted}, exact for all {self.listed:,} suggestions of the audited list"
        return f"{counted}; not answered in the order of `audit`, so exact for the answered ones only"


def of_answers(answers: Sequence[Answer], log_odds: Floats) -> Audit:
    """`log_odds` [n]: what the model had said of each answer that is yes or no, in order; NaN if it cannot say."""
    missing = [answer for answer in answers if answer.kind == "missing"]
    sure = [answer for answer in missing if answer.answer in (YES, NO)]
    right = np.array([answer.answer == YES for answer in sure], np.float64)
    tried = [answer.audit for answer in missing if answer.answer is not None]
    places = [place for place in tried if place is not None]
    is_random = bool(places) and len(places) == len(tried) and max(places) <= 1.1 * len(places) + 1
    known = np.isfinite(log_odds)
    shift, deviation = _shift(log_odds[known], right[known])
    return Audit(len(missing), len(sure), int(right.sum()), is_random, shift, deviation)


def _shift(log_odds: Floats, right: Floats) -> tuple[float, float]:
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
