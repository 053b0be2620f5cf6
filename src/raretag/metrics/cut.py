"""Which of the ranked labels an item gets, where labels are too many for a threshold each.

    probability = sigmoid(scale s + rarity ln(1 + N_l) + shift)

for a score s and a label with N_l training positives: three numbers for all labels, fitted to ranked labels of items
that the ranker was not fitted to. A label is chosen if its probability is above one threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from raretag.core.errors import UserError
from raretag.metrics.calibration import Goal

RIDGE = 1e-3  # on the numbers that are fitted, against a sample in which they have no end


@dataclass(frozen=True)
class Cut:
    """The three numbers and the threshold."""

    scale: float = 1.0
    rarity: float = 0.0
    shift: float = 0.0
    threshold: float = 0.5

    def probabilities(self, scores: NDArray[Any], positives: NDArray[Any]) -> NDArray[np.float32]:
        """Of scores and their labels' training positives, of one shape; 0 where a score is -inf."""
        there = np.isfinite(scores)
        z = self.scale * np.where(there, scores, 0.0) + self.rarity * np.log1p(positives) + self.shift
        return np.where(there, expit(z), 0.0).astype(np.float32)


@dataclass(frozen=True)
class Sample:
    """Ranked labels of items that the ranker was not fitted to."""

    scores: NDArray[np.float32]  # [S, k]
    positives: NDArray[np.int64]  # [S, k] training positives of each label
    state: NDArray[np.int8]  # [S, k] 1 positive, 0 negative, -1 unknown or no label
    truth: NDArray[np.int64]  # [S] positives of each item, ranked or not

    def take(self, rows: NDArray[Any]) -> Sample:
        return Sample(self.scores[rows], self.positives[rows], self.state[rows], self.truth[rows])


def fit_cut(sample: Sample, goal: Goal = "f1", wanted: float | None = None, threshold: float | None = None) -> Cut:
    """The cut that reaches a goal on a sample: the best F1 of all decisions together, or a precision or recall."""
    cut = calibrated(sample)
    if threshold is not None:
        return replace(cut, threshold=threshold)
    p = cut.probabilities(sample.scores, sample.positives)
    order = np.argsort(-p[sample.state >= 0], kind="stable")
    right = (sample.state[sample.state >= 0] == 1)[order].cumsum()
    values = p[sample.state >= 0][order]
    last = np.append(values[1:] < values[:-1], True) if len(values) else np.zeros(0, np.bool_)  # equal ones go together
    right, chosen, values = right[last], (np.flatnonzero(last) + 1), values[last]
    total = int(sample.truth.sum())
    if not len(values) or not total:
        return cut
    if goal == "f1":
        place = int(np.argmax(2 * right / (chosen + total)))
    else:
        reached = np.flatnonzero(right / (chosen if goal == "precision" else total) >= (wanted or 0.0))
        if not len(reached):
            best = float((right / (chosen if goal == "precision" else total)).max())
            raise UserError(
                f"no threshold reaches a {goal} of {wanted:g} on the held-out items; the best is {best:.3f}"
            )
        place = int(reached[-1] if goal == "precision" else reached[0])
    below = values[place + 1] if place + 1 < len(values) else values[place] / 2
    return replace(cut, threshold=float((values[place] + below) / 2))


def decided(cut: Cut, sample: Sample) -> tuple[int, int, int]:
    """How many labels are chosen, how many of them are right, and how many positives there are."""
    chosen = (cut.probabilities(sample.scores, sample.positives) > cut.threshold) & (sample.state >= 0)
    return int(chosen.sum()), int((chosen & (sample.state == 1)).sum()), int(sample.truth.sum())


def micro_f1(*counts: tuple[int, int, int]) -> dict[str, float | None]:
    """Precision, recall and F1 of all decisions together."""
    chosen, right, total = (sum(one[place] for one in counts) for place in range(3))
    return {
        "precision": right / chosen if chosen else None,
        "recall": right / total if total else None,
        "F1": 2 * right / (chosen + total) if chosen + total else None,
    }


def checked_halves(sample: Sample) -> dict[str, float | None]:
    """The same for cuts that were each fitted to one half of the items and used on the other."""
    half = np.arange(len(sample.truth)) % 2 == 0
    parts = [sample.take(np.flatnonzero(half)), sample.take(np.flatnonzero(~half))]
    return micro_f1(*(decided(fit_cut(one), other) for one, other in (parts, parts[::-1])))


def calibrated(sample: Sample, steps: int = 50) -> Cut:
    """Logistic regression of what is right on score and frequency, by Newton's method."""
    used = sample.state >= 0
    y = (sample.state[used] == 1).astype(np.float64)
    if not y.any() or y.all():
        return Cut()
    x = np.stack([sample.scores[used], np.log1p(sample.positives[used]), np.ones(len(y))], 1).astype(np.float64)
    middle, spread = x[:, :2].mean(0), np.maximum(x[:, :2].std(0), 1e-9)
    x[:, :2] = (x[:, :2] - middle) / spread
    theta = np.zeros(3)
    for _ in range(steps):
        p = expit(x @ theta)
        slope = x.T @ (p - y) + RIDGE * theta
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + RIDGE * np.eye(3), slope)
        theta -= step
        if np.abs(step).max() < 1e-8:
            break
    scale, rarity = theta[:2] / spread
    if scale <= 0:  # scores that say nothing: their order still counts
        return Cut()
    return Cut(float(scale), float(rarity), float(theta[2] - (theta[:2] * middle / spread).sum()))
