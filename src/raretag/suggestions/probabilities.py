"""How probable it is that an unknown entry is positive, from the positives of a data set alone, or from both states.

Positives alone: an entry is marked (observed positive) or a candidate; see label_frequency.py. If nothing is
unknown, the observed negatives are the candidates: lists of tags, where "not listed" means negative, are the commonest
case.

Both states: among observed entries q = P(positive | t) is fitted directly. Unknown entries may be positive more or less
often; with the missingness the same for all scores of a state, their log odds differ by one number, which the scores of
the unknown entries fix (Saerens et al., "Adjusting the outputs of a classifier to new a priori probabilities", 2002).
This needs negatives that nobody chose by their score: rejected suggestions are not such ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.decision_cuts import are_chosen
from raretag.metrics.empty_items import EmptyItems, Ratio
from raretag.metrics.label_frequency import (
    NEVER,
    Bools,
    Floats,
    LabelFrequency,
    estimate_label_frequency,
    on_one_scale,
)
from raretag.metrics.marked_shares import MarkedShares, estimate_marked_shares
from raretag.suggestions.promise import Promise, from_both, from_marks, from_marks_by_label, passing

_AT_MOST = 300_000  # unknown entries that the ratio is fitted on
CHEAPEST = "answer fifty suggestions in random order (--audit), or give --marked-share"
RATIOS = np.linspace(-6.0, 3.0, 181)  # log odds ratios that are weighed


@dataclass(frozen=True)
class EntryProbabilities:
    """What scores and labels together reveal of each entry."""

    t: Floats  # [N, C] log odds of a mark, all labels on one scale; less d where labels have shares of their own
    positive: Bools  # [N, C] observed positives
    negative: Bools  # [N, C] observed negatives
    candidates: Bools  # [N, C] entries that may be missing positives
    frequency: LabelFrequency  # from positives alone, or of observed entries
    log_ratio: Floats | None  # draws; None: positives alone
    single: bool = False  # every item has exactly one mark
    shares: MarkedShares | None = None  # of each label; None: alike
    empty: EmptyItems | None = None  # what items without a mark tell, where that was used

    @property
    def both(self) -> bool:
        """Whether labels of both states were observed."""
        return self.log_ratio is not None

    def probability(self, t: Floats) -> Floats:
        """P(positive) of candidates."""
        if self.log_ratio is None:
            return self.frequency.missing(t)
        some = self.log_ratio[:: max(1, len(self.log_ratio) // 50)]
        return np.asarray(np.mean([expit(t + ratio) for ratio in some], axis=0))

    def promise(self, chosen: Bools, by_rank: Bools) -> Promise:
        """Of a list of candidates, both [N, C]."""
        size = int(chosen.sum())
        positives = passing(self.t, chosen, by_rank, self.positive)
        if self.log_ratio is None:
            if self.shares is not None:
                return from_marks_by_label(size, positives, self.shares)
            return from_marks(size, int(positives.sum()), self.frequency)
        negatives = passing(self.t, chosen, by_rank, self.negative)
        return from_both(size, int(positives.sum()), int(negatives.sum()), self.log_ratio)

    def assumption(self) -> str:
        """What the probabilities rest on, in a sentence."""
        if self.both:
            return (
                "labels of both states were observed: assumes that which labels are unknown does not depend on the "
                "score within a state"
            )
        middle, low, high = self.frequency.interval()
        if self.single and not self.frequency.given:
            return (
                "every item has exactly one mark, so an item's other positives were left out and the scores do not "
                f"show how many: {CHEAPEST}"
            )
        if self.frequency.given:
            return f"{middle:.0%} of the positives are marked, as given: assumes that this does not depend on the score"
        by_empty = self.empty is not None and self.empty.tell
        source = "the scores and from the items without any mark" if by_empty else "the scores alone"
        sure = "" if high - low < 0.25 else f", which do not fix it: {CHEAPEST}"
        told = self.empty is not None and self.empty.ratio is not None
        every = ", and that items without any label " + ("score lower than others" if told else "are few")
        some = every if by_empty else ""
        return (
            f"{middle:.0%} of the positives are marked, between {low:.0%} and {high:.0%} from {source}{sure}; "
            f"assumes that this does not depend on the score and is {self._alike()}{some}"
        )

    def _alike(self) -> str:
        if self.shares is None or not self.shares.vary:
            return "the same for all labels"
        some = self.shares.shares()[self.positive.any(axis=0)]
        return f"higher for frequent labels: from {some.min():.0%} to {some.max():.0%}"


def estimate_probabilities(
    logits: Floats, targets: Targets, label_frequency: float | None = None, *, by_label: bool = False
) -> EntryProbabilities:
    """From out-of-fold logits [N, C]; `label_frequency`: the share of the true positives that are marked, if known.

    by_label    labels have shares of their own (metrics/marked_shares.py)
    """
    observed, value = targets.observed.numpy(), targets.value.numpy()
    positive, negative = observed & (value == 1), observed & (value == 0)
    if not positive.any():
        raise UserError(
            "no training item has a positive label: nothing can be suggested; were the labels read correctly?"
        )
    candidates = ~observed if not observed.all() else negative
    if observed.all() or not negative.any() or label_frequency is not None or asked(logits, negative, observed):
        counted = positive | candidates
        t = on_one_scale(logits, positive, counted)
        usable = counted & positive.any(axis=0)
        single = not observed.all() and bool((positive.sum(axis=1) == 1).all())  # then a mark depends on other labels
        if by_label and not single:
            shares = estimate_marked_shares(t, positive, counted, label_frequency)
            t = np.where(t > NEVER, t - shares.log_ratio, NEVER)
            return EntryProbabilities(t, positive, negative, candidates, shares.frequency, None, shares=shares)
        empty = EmptyItems.of(positive.sum(axis=1), Ratio.of(t, positive))
        found = estimate_label_frequency(t[usable], positive[usable], label_frequency, blind=single, empty=empty)
        return EntryProbabilities(t, positive, negative, candidates, found, None, single, empty=empty)
    t = on_one_scale(logits, positive, observed)
    usable = observed & positive.any(axis=0)
    ratio = estimate_ratio(t, positive, observed)
    return EntryProbabilities(
        t, positive, negative, candidates, estimate_label_frequency(t[usable], positive[usable], complete=True), ratio
    )


def asked(logits: Floats, negative: Bools, observed: Bools) -> bool:
    """Whether observed negatives look like rejected suggestions."""
    return are_chosen(*(torch.from_numpy(some) for some in (logits, negative, ~observed)))


def estimate_ratio(t: Floats, positive: Bools, observed: Bools) -> Floats:
    """Draws of the log ratio of the odds of a positive: unknown entries against observed ones of the same score."""
    counts = np.maximum(observed.sum(axis=0), 1)  # [C]
    prior = np.clip((positive & observed).sum(axis=0) / counts, 1e-6, 1 - 1e-6)
    row, label = np.nonzero(~observed & positive.any(axis=0, keepdims=True))
    if not len(row):
        return np.zeros(1)
    step = -(-len(row) // _AT_MOST)
    row, label = row[::step], label[::step]
    q, p0 = expit(t[row, label]), prior[label]
    fits = np.empty(len(RATIOS))
    for place, ratio in enumerate(RATIOS):
        p = expit(np.log(p0 / (1 - p0)) + ratio)  # positives among the unknown entries of the label
        fits[place] = np.log(np.maximum(p / p0 * q + (1 - p) / (1 - p0) * (1 - q), 1e-300)).mean()
    # The curve q was itself fitted on observed entries: both samples limit what is known.
    effective = 1.0 / (1.0 / len(row) + 1.0 / max(int(observed.sum()), 1))
    weight = np.exp(effective * (fits - fits.max()))
    return np.random.default_rng(0).choice(RATIOS, 400, p=weight / weight.sum())
