"""Suggestions where labels are too many to be scored one by one: from the best labels of each item, out of fold.

An entry is an item and one of its first ranked labels; entries further down are never suggested. Log odds of a mark
come from the cut (metrics/cut.py), and what they mean for entries without a mark from label_frequency.py, as always. A
part of the list, the quota, holds the likeliest entry of labels that are rare. Marks that are probably wrong would
stand far down in a ranking, where nothing is scored, so none are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.ranker import Known, Ranked
from raretag.labels.corrections import Places
from raretag.labels.store import LabelStore
from raretag.metrics.cut import Sample, calibrated
from raretag.metrics.label_frequency import Bools, Floats, estimate_label_frequency
from raretag.metrics.top_k import is_positive, states
from raretag.suggestions.answers import NO, YES, Answer
from raretag.suggestions.listing import Suggestion, Suggestions
from raretag.suggestions.promise import Audit, Promise, audit_answers, from_marks, from_probabilities

CUTS = (50, 100, 200, 500, 1000, 2000, 5000)
_PURPOSE = int.from_bytes(b"audit", "big")


@dataclass(frozen=True)
class Entries:
    """Ranked labels of items, in one line."""

    row: NDArray[np.int64]  # [E]
    label: NDArray[np.int64]  # [E]
    t: Floats  # [E] log odds of a mark
    marked: Bools  # [E]
    candidate: Bools  # [E] may be a positive that nobody marked

    @classmethod
    def of(cls, ranked: Ranked, known: Known) -> Entries:
        """Of the out-of-fold ranking of all items."""
        counts = np.bincount(known.positive.indices, minlength=known.labels)
        of_label = counts[np.maximum(ranked.labels, 0)]
        state, there = states(ranked, known), ranked.labels >= 0
        unknown = there & (state < 0)
        refused = np.zeros(state.shape, np.bool_)
        if known.excepted is not None and known.absent == "unknown":
            refused = is_positive(ranked.labels, known.excepted)
        candidate = unknown if unknown.any() else there & (state == 0) & ~refused
        used = candidate | (state == 1)
        cut = calibrated(Sample(ranked.scores, of_label, np.where(used, state == 1, -1).astype(np.int8), counts[:0]))
        t = cut.scale * np.where(there, ranked.scores, 0.0) + cut.rarity * np.log1p(of_label) + cut.shift
        row, place = np.nonzero(used)
        label = ranked.labels[row, place].astype(np.int64)
        return cls(row, label, t[row, place].astype(np.float64), state[row, place] == 1, candidate[row, place])


def list_ranked(
    ranked: Ranked,
    labels: LabelStore,
    groups: dict[str, NDArray[np.int64]],
    *,
    most: int,
    quota: float,
    label_frequency: float | None,
    answered: Sequence[Answer] = (),
    seed: int = 0,
) -> Suggestions:
    """Missing positives, the likeliest first; the arguments are those of `selection.list_suggestions`."""
    entries = Entries.of(ranked, labels.known())
    if not entries.marked.any():
        raise UserError("no ranked label is marked, so nothing can be suggested; were the labels read correctly?")
    frequency = estimate_label_frequency(entries.t, entries.marked, label_frequency)
    group = np.full(labels.labels, "", object)
    for name, members in groups.items():
        group[members] = name

    def log_odds(t: Floats) -> Floats:
        return np.asarray(logit(np.clip(frequency.missing(t), 1e-6, 1 - 1e-6)))

    audit, done = audited(entries, labels, answered, log_odds)
    chosen, by_rank = pick(entries, entries.candidate & ~done, group == "tail", most, quota)
    odds = log_odds(entries.t[chosen]) + (audit.shift if audit else 0.0)
    order = chance.permutation(len(chosen), _PURPOSE, seed).tolist()
    place = {row: number for number, row in enumerate(order, start=1)}
    was = "negative" if labels.absent == "negative" and labels.known().excepted is None else "unknown"
    names, ids = labels.names, labels.ids
    found = [
        Suggestion(
            number + 1,
            str(ids[int(entries.row[entry])]),
            names[int(entries.label[entry])],
            "missing",
            was,
            float(expit(odds[number])),
            str(group[entries.label[entry]]),
            place[number],
        )
        for number, entry in enumerate(chosen.tolist())
    ]

    def promise(size: int) -> Promise:
        if audit is not None and audit.answered:
            return from_probabilities(size, odds[:size], 0.0, audit.deviation)
        return from_marks(size, passed(entries, chosen[:size], by_rank[:size]), frequency)

    middle, low, high = frequency.interval()
    given = "as given" if frequency.given else f"between {low:.0%} and {high:.0%} from the scores alone"
    assumption = (
        f"{middle:.0%} of the positives are marked, {given}; assumes that this does not depend on the score and is "
        "the same for all labels; only the first ranked labels of an item are looked at"
    )
    sizes = [size for size in CUTS if size < len(found)] + ([len(found)] if found else [])
    return Suggestions(found, [promise(size) for size in sizes], None, audit, assumption, frequency.interval())


def pick(entries: Entries, candidates: Bools, rare: Bools, most: int, quota: float) -> tuple[NDArray[np.int64], Bools]:
    """`most` candidates, best first, and which of them their rank brought here.

    The share `quota` are the best entries of rare labels, one each.
    """
    order = np.flatnonzero(candidates)
    order = order[np.argsort(-entries.t[order], kind="stable")]
    of_rare = order[rare[entries.label[order]]]
    _, first = np.unique(entries.label[of_rare], return_index=True)  # the best of each label
    dealt = of_rare[np.sort(first)][: int(quota * most)]
    rest = order[~np.isin(order, dealt)][: most - len(dealt)]
    both = np.concatenate([dealt, rest])
    both = both[np.argsort(-entries.t[both], kind="stable")]
    lowest = entries.t[rest].min() if len(rest) else np.inf
    return both, entries.t[both] >= lowest


def passed(entries: Entries, chosen: NDArray[np.int64], by_rank: Bools) -> int:
    """Marked entries above the cut that a list makes (see `promise.passing`).

    A label's cut is the lowest entry that its rank brought here, or lower where the quota took one of that label.
    """
    lowest = np.full(int(entries.label.max(initial=-1)) + 1, entries.t[chosen[by_rank]].min(initial=np.inf))
    np.minimum.at(lowest, entries.label[chosen], entries.t[chosen])
    return int((entries.marked & (entries.t >= lowest[entries.label])).sum())


def audited(
    entries: Entries, labels: LabelStore, answers: Sequence[Answer], log_odds: Callable[[Floats], Floats]
) -> tuple[Audit | None, Bools]:
    """What the answers reveal, and the entries that need not be asked again."""
    done = np.zeros(len(entries.row), np.bool_)
    if not answers:
        return None, done
    places = Places(labels)
    key = {pair: at for at, pair in enumerate(zip(entries.row.tolist(), entries.label.tolist(), strict=True))}
    odds = []
    for answer in answers:
        at = key.get((places.row.get(answer.item, -1), places.column.get(answer.label, -1)))
        if at is not None and answer.answer is not None:
            done[at] = True
        if answer.kind == "missing" and answer.answer in (YES, NO):
            odds.append(np.nan if at is None else float(log_odds(entries.t[at : at + 1])[0]))
    return audit_answers(answers, np.array(odds, np.float64)), done
