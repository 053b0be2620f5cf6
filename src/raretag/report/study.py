"""A finished run as the report sees it: plain dictionaries and numpy arrays, of which some may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUPS = ("head", "medium", "tail")


@dataclass(frozen=True)
class Example:
    """An item to look at. Names are of labels."""

    kind: str  # why it is shown
    id: str
    image: bytes | None = None  # JPEG
    text: str | None = None
    present: tuple[str, ...] = ()  # labels that it is known to have
    found: tuple[
        tuple[str, float, bool | None], ...
    ] = ()  # label, probability, whether it is right (None: nobody knows)
    missed: tuple[tuple[str, float], ...] = ()  # labels that it has and the model does not see


@dataclass(frozen=True)
class Judged:
    """Predictions for the test items beside what is known of them."""

    p: NDArray[np.float64]  # [N, C] probabilities
    positive: NDArray[np.bool_]  # [N, C]: observed and there
    observed: NDArray[np.bool_]  # [N, C]


@dataclass(frozen=True)
class Study:
    name: str
    path: str  # of the run folder, as the user wrote it
    record: dict[str, Any]
    epochs: Sequence[dict[str, Any]] = ()  # with numbers of single labels
    counts: NDArray[np.int64] | None = None  # [C] training positives that the method saw
    unknown: NDArray[np.int64] | None = None  # [C] training items of which nobody knows whether they have the label
    judged: Judged | None = None
    together: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None  # [C, K] labels and counts, in training
    examples: Sequence[Example] = ()
    missing: Sequence[str] = field(default_factory=tuple)  # what could not be had, in sentences

    @property
    def labels(self) -> list[str]:
        return list(self.record["data"]["labels"])

    @property
    def final(self) -> dict[str, Any]:
        return dict(self.record["metrics"]["final"])

    @property
    def method(self) -> str:
        return str(self.record["config"]["method"]["name"])

    @cached_property
    def group(self) -> list[str]:
        """The group of each label."""
        found = [""] * len(self.labels)
        for name in GROUPS:
            for label in self.record["groups"][name]:
                found[label] = name
        return found

    @cached_property
    def average_precision(self) -> NDArray[np.float64]:
        """[C], NaN where the test set cannot tell."""
        return numbers(self.final["per_class"]["average_precision"])

    @cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """[C], tuned on validation. The record has them of sigmoid(scale z + shift), calibrated; these are of p."""
        calibrated = numbers(self.record["thresholds"])
        how = self.record.get("calibration", {"scale": 1.0, "shift": 0.0})
        with np.errstate(divide="ignore", over="ignore"):  # a threshold of 1 stays 1
            logits = np.log(calibrated) - np.log1p(-calibrated)
            return 1 / (1 + np.exp((np.array(how["shift"]) - logits) / np.array(how["scale"])))

    def decisions(self, tuned: bool) -> Decisions:
        assert self.judged is not None
        decided = self.judged.p > (self.thresholds if tuned else 0.5)
        return Decisions.of(decided, self.judged.positive, self.judged.observed)

    @cached_property
    def at_half(self) -> Decisions:
        return self.decisions(tuned=False)

    @cached_property
    def at_tuned(self) -> Decisions:
        return self.decisions(tuned=True)


@dataclass(frozen=True)
class Decisions:
    """What cutting at thresholds gives, for each label [C], over observed items."""

    hits: NDArray[np.int64]
    alarms: NDArray[np.int64]  # false ones
    misses: NDArray[np.int64]

    @classmethod
    def of(cls, decided: NDArray[np.bool_], positive: NDArray[np.bool_], observed: NDArray[np.bool_]) -> Decisions:
        hits = (decided & positive).sum(0)
        return cls(hits, (decided & observed & ~positive).sum(0), positive.sum(0) - hits)

    @property
    def predicted(self) -> NDArray[np.int64]:
        return self.hits + self.alarms

    @property
    def positives(self) -> NDArray[np.int64]:
        return self.hits + self.misses

    @property
    def f1(self) -> NDArray[np.float64]:
        """NaN for labels without a positive."""
        whole = 2 * self.hits + self.alarms + self.misses
        return np.where(self.positives > 0, 2 * self.hits / np.maximum(whole, 1), np.nan)


def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def chosen(study: Study, most: int) -> list[int]:
    """At most so many labels: in turns the rarest, the worst and the most frequent, given in the order of the list."""
    labels = len(study.labels)
    if labels <= most:
        return list(range(labels))
    counts = np.zeros(labels) if study.counts is None else study.counts
    rarest = np.argsort(counts, kind="stable")
    worst = np.argsort(np.nan_to_num(study.average_precision, nan=2.0), kind="stable")
    kept: dict[int, None] = {}
    for turn in zip(rarest.tolist(), worst.tolist(), rarest[::-1].tolist(), strict=True):
        for label in turn:
            if len(kept) < most:
                kept[label] = None
    return sorted(kept)
