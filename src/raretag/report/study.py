"""A finished run as the page needs it: plain dictionaries and numpy arrays, of which some may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from raretag.core.targets import Targets
from raretag.metrics.intervals import Interval, paired_difference

GROUPS = ("head", "medium", "tail")
ENOUGH = 5  # test positives of a label, from which its own numbers are put into words
FINE_PRECISION = 0.5  # an average precision from which a ranking is called fine,
FINE_LIFT, FINE_LEAST = 4.0, 0.1  # or so many times that of a random order, and at least so high
MOST_RESAMPLED = 20_000_000  # predictions
RESAMPLES = 200


@dataclass(frozen=True)
class Example:
    """An item to look at. Names are of labels."""

    kind: str  # why it is shown
    id: str
    image: bytes | None = None  # JPEG
    text: str | None = None
    present: tuple[str, ...] = ()  # labels that it is known to have
    # label, probability, whether it is right (None: nobody knows)
    found: tuple[tuple[str, float, bool | None], ...] = ()
    missed: tuple[tuple[str, float], ...] = ()  # labels that it has and the model does not find


@dataclass(frozen=True)
class Scores:
    """Predictions for the items that the run was measured on, beside what is known of them."""

    p: NDArray[np.float64]  # [N, C] probabilities
    positive: NDArray[np.bool_]  # [N, C]: observed and there
    observed: NDArray[np.bool_]  # [N, C]


@dataclass(frozen=True)
class Study:
    name: str
    path: str  # of the run folder, as the user wrote it
    record: dict[str, Any]
    epochs: Sequence[dict[str, Any]] = ()  # with numbers of single labels
    counts: NDArray[np.int64] | None = None  # [C] training positives that the method was given
    unknown: NDArray[np.int64] | None = None  # [C] training items of which nobody knows whether they have the label
    test: Scores | None = None  # of the test items; out of fold or of validation items where there are none
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
    def measured_on(self) -> str:
        """Test, validation, or out of fold."""
        return str(self.final.get("measured_on", "test"))

    @property
    def measured_items(self) -> str:
        """The items that the numbers are of, in words."""
        on = self.measured_on
        return "training items, scored out of fold" if on == "out of fold" else f"{on} items"

    @property
    def positives(self) -> str:
        """What a label's positives among those items are called."""
        return "positives" if self.measured_on == "out of fold" else f"{self.measured_on} positives"

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
        """[C], NaN where the test set cannot measure it."""
        return numbers(self.final["per_class"]["average_precision"])

    @cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """[C], tuned on validation: for p. Those in the record are for the calibrated sigmoid(scale z + shift)."""
        calibrated = numbers(self.record["thresholds"])
        how = self.record.get("calibration", {"scale": 1.0, "shift": 0.0})
        with np.errstate(divide="ignore", over="ignore"):  # a threshold of 1 stays 1
            logits = np.log(calibrated) - np.log1p(-calibrated)
            found: NDArray[np.float64] = 1 / (1 + np.exp((np.array(how["shift"]) - logits) / np.array(how["scale"])))
            return found

    def decisions(self, tuned: bool) -> Decisions:
        assert self.test is not None
        decided = self.test.p > (self.thresholds if tuned else 0.5)
        return Decisions.of(decided, self.test.positive, self.test.observed)

    @cached_property
    def at_half(self) -> Decisions:
        return self.decisions(tuned=False)

    @cached_property
    def at_tuned(self) -> Decisions:
        return self.decisions(tuned=True)

    @property
    def solved(self) -> bool:
        """Whether the method was solved at once, without training steps."""
        return bool(self.record["method"].get("solves"))

    @property
    def has_unknown_labels(self) -> bool:
        return self.unknown is not None and bool(self.unknown.any())

    @property
    def labels_may_be_missing(self) -> bool:
        """Some are unknown, or nobody has checked those that an item does not list."""
        return self.has_unknown_labels or self.record["data"].get("notes", {}).get("absent") == "negative"

    @property
    def ignores_unknown(self) -> bool:
        """Whether the method leaves unknown labels out of the loss."""
        return bool(self.record["method"]["slots"].get("complete") == "ObservedOnly")

    @cached_property
    def prevalence(self) -> NDArray[np.float64]:
        """[C], share of the observed test items that have the label: the average precision of a random order."""
        assert self.test is not None
        shares: NDArray[np.float64] = self.test.positive.sum(0) / np.maximum(self.test.observed.sum(0), 1)
        return shares

    def never_predicted(self) -> list[int]:
        """Labels with test positives that are never predicted at 0.5."""
        return [int(c) for c in np.flatnonzero((self.at_half.predicted == 0) & (self.at_half.positives > 0))]

    def ranks_well(self) -> list[bool | None]:
        """For each label whether its ranking is fine, whatever the threshold; None: too few test positives to tell."""
        triples = zip(self.average_precision, self.prevalence, self.at_half.positives, strict=True)
        return [
            None
            if positives < ENOUGH
            else bool(ap >= FINE_PRECISION or ap >= max(FINE_LEAST, FINE_LIFT * max(random, 1e-9)))
            for ap, random, positives in triples
        ]

    @cached_property
    def outranks(self) -> NDArray[np.float64]:
        """[C]: how often a test positive scores above a test negative, which does not depend on how rare positives are.

        NaN for labels with too few of either.
        """
        assert self.test is not None
        found = np.full(len(self.labels), np.nan)
        for label in range(len(found)):
            seen = self.test.observed[:, label]
            p, positive = self.test.p[seen, label], self.test.positive[seen, label]
            some, others = int(positive.sum()), int((~positive).sum())
            if min(some, others) >= ENOUGH:
                found[label] = (rankdata(p)[positive].sum() - some * (some + 1) / 2) / (some * others)
        return found

    @cached_property
    def gain_of_thresholds(self) -> Interval | None:
        """Macro F1 on test items at tuned thresholds minus that at 0.5; None where items cannot be resampled.

        Also None without test items: thresholds look too good on the items that they were tuned on.
        """
        if self.test is None or self.measured_on != "test":
            return None
        if not self.test.positive.any() or self.test.p.size > MOST_RESAMPLED:
            return None
        p = torch.from_numpy(self.test.p)
        targets = Targets(torch.from_numpy(self.test.positive).double(), torch.from_numpy(self.test.observed))
        cut = torch.from_numpy(self.thresholds)
        return paired_difference(p.logit(), p.logit(), targets, metric="F1", thresholds_a=cut, resamples=RESAMPLES)[
            "total"
        ]

    @property
    def thresholds_from(self) -> str:
        """What the thresholds were tuned on, in words."""
        source = self.record.get("fitted_on", {}).get("thresholds", {}).get("from", "validation items")
        return "training items, scored out of fold" if source == "out of fold" else str(source)

    def f1_of_always_yes(self) -> dict[str, float]:
        """Macro F1 of each group if every label were found on every item: 2 pi / (1 + pi) at a prevalence of pi."""
        if self.test is None:
            return {}
        f1 = np.where(self.prevalence > 0, 2 * self.prevalence / (1 + self.prevalence), np.nan)
        groups = {group: f1[self.record["groups"][group]] for group in GROUPS}
        return {group: float(np.nanmean(some)) for group, some in groups.items() if not np.isnan(some).all()}

    def labels_to_show(self, most: int) -> list[int]:
        """At most so many labels: in turn the rarest, the worst and the most frequent, in the order of the list."""
        labels = len(self.labels)
        if labels <= most:
            return list(range(labels))
        counts = np.zeros(labels) if self.counts is None else self.counts
        rarest = np.argsort(counts, kind="stable")
        worst = np.argsort(np.nan_to_num(self.average_precision, nan=2.0), kind="stable")
        kept: dict[int, None] = {}
        for turn in zip(rarest.tolist(), worst.tolist(), rarest[::-1].tolist(), strict=True):
            for label in turn:
                if len(kept) < most:
                    kept[label] = None
        return sorted(kept)


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
