"""Which entries are suggested, with probabilities and promises: the likeliest, and for every label a few of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor

from raretag.core import chance
from raretag.labels.corrections import Places
from raretag.labels.store import LabelStore
from raretag.metrics.label_frequency import NEVER, Bools, Floats
from raretag.suggestions.answers import NO, YES, Answer
from raretag.suggestions.listing import Suggestion, Suggestions
from raretag.suggestions.probabilities import EntryProbabilities, estimate_probabilities
from raretag.suggestions.promise import Audit, Promise, audit_answers, from_probabilities
from raretag.suggestions.teaching import POWER, teaching_order

CUTS = (50, 100, 200, 500, 1000, 2000, 5000)
_PURPOSE = int.from_bytes(b"audit", "big")
_POOL = 8  # candidates for each suggestion that teaches
_LIKELY_WRONG = 0.05  # below this nobody wants to look at an observed label again


@dataclass(frozen=True)
class Picked:
    """Entries by row and label."""

    row: NDArray[np.int64]  # [K], best first
    label: NDArray[np.int64]  # [K]
    by_rank: Bools  # [K], False: only a quota brought it here

    def __len__(self) -> int:
        return len(self.row)

    def first(self, count: int) -> Picked:
        return Picked(self.row[:count], self.label[:count], self.by_rank[:count])

    def mask(self, shape: tuple[int, ...], only_by_rank: bool = False) -> Bools:
        """The entries as an [N, C] array."""
        mask = np.zeros(shape, np.bool_)
        some = self.by_rank if only_by_rank else slice(None)
        mask[self.row[some], self.label[some]] = True
        return mask


def pick(t: Floats, candidates: Bools, most: int, quota: float) -> Picked:
    """`most` candidates with the highest t [N, C]. The share `quota` of them is dealt evenly to all labels first.

    Where there are more labels than places to deal, labels with a likelier best candidate come first.
    """
    most = min(most, int((candidates & (t > NEVER)).sum()))
    scores = np.where(candidates & (t > NEVER), t, -np.inf)
    chosen = np.zeros(t.shape, np.bool_)
    _deal(scores, chosen, int(quota * most))
    rest = most - int(chosen.sum())
    by_rank = np.zeros(t.shape, np.bool_)
    order = np.argsort(-scores, axis=None, kind="stable")[:most]
    # A quota's entry that its rank would have brought here anyway frees a place, so the cut falls until all are used.
    taken = np.cumsum(~chosen.ravel()[order])
    by_rank.ravel()[order[: int(np.searchsorted(taken, rest, side="right"))]] = True
    row, label = np.nonzero(chosen | by_rank)
    best_first = np.argsort(-scores[row, label], kind="stable")
    row, label = row[best_first], label[best_first]
    return Picked(row, label, by_rank[row, label])


def _deal(scores: Floats, chosen: Bools, places: int) -> None:
    best = scores.max(axis=0)  # [C]
    labels = [int(label) for label in np.argsort(-best, kind="stable") if np.isfinite(best[label])]
    each = max(places // max(len(labels), 1), 1)
    for label in labels[: places // each]:
        rows = np.argsort(-scores[:, label], kind="stable")[:each]
        chosen[rows[np.isfinite(scores[rows, label])], label] = True


def pick_teaching(entries: EntryProbabilities, logits: Floats, most: int, power: float = POWER) -> Picked:
    """`most` candidates that teach most; like all picked entries they stand with the highest t first."""
    pool = pick(entries.t, entries.candidates, _POOL * most, 0.5)
    p = entries.probability(entries.t[pool.row, pool.label])
    order = teaching_order(p, pool.label, entries.positive.sum(axis=0), logits[pool.row], power=power)[:most]
    chosen = np.sort(order)  # the pool has the highest first
    return Picked(pool.row[chosen], pool.label[chosen], np.zeros(len(chosen), np.bool_))


def list_suggestions(
    logits: Floats,
    labels: LabelStore,
    groups: Mapping[str, Tensor],
    *,
    most: int = 500,
    quota: float = 0.3,
    label_frequency: float | None = None,
    by_label: bool = False,
    wrong: int = 50,
    answered: Sequence[Answer] = (),
    teach: bool = False,
    seed: int = 0,
) -> Suggestions:
    """Missing positives and wrong labels, each list with the likeliest first.

    Args:
        logits: [N, C], out of fold: of models that were not trained on the item.
        labels: The labels as they are now.
        groups: The members of each group of labels, for the column `group`.
        most: How many missing positives to suggest.
        quota: The share of them that is dealt evenly to all labels.
        label_frequency: The share of the true positives that are marked, if it is known.
        by_label: That share is estimated for each label (metrics/marked_shares.py).
        wrong: How many observed labels to doubt at most.
        answered: Answers to an earlier list of the same labels.
        teach: Choose what teaches rare labels most (`teaching_order`), not what is likeliest; `quota` is not used.
        seed: Of the random order in which an audit goes through the list.
    """
    entries = estimate_probabilities(logits, labels.targets(), label_frequency, by_label=by_label)
    audit, done = _audited(entries, labels, answered)
    entries = replace(entries, candidates=entries.candidates & ~done)
    marked = entries.positive.sum(axis=0)
    picked = pick_teaching(entries, logits, most) if teach else pick(entries.t, entries.candidates, most, quota)
    log_odds = _log_odds(entries, entries.t[picked.row, picked.label]) + (audit.shift if audit else 0.0)
    group_of = {int(label): name for name, members in groups.items() for label in members}
    order = chance.permutation(len(picked), _PURPOSE, seed).tolist()
    place = {row: number for number, row in enumerate(order, start=1)}
    lessons = teaching_order(expit(log_odds), picked.label, marked, logits[picked.row])
    turn = {row: number for number, row in enumerate(lessons.tolist(), start=1)}
    was = "unknown" if labels.observed_share < 1 else "negative"
    found = [
        Suggestion(
            number + 1,
            str(labels.ids[int(picked.row[number])]),
            labels.names[int(picked.label[number])],
            "missing",
            was,
            float(expit(log_odds[number])),
            group_of.get(int(picked.label[number]), ""),
            place[number],
            turn=turn[number],
        )
        for number in range(len(picked))
    ]
    doubted, promise_of_wrong = _doubted(entries, labels, group_of, wrong, len(found), done)
    return Suggestions(
        found + doubted,
        [_promise(entries, picked.first(size), log_odds[:size], audit) for size in _sizes(len(picked))],
        promise_of_wrong,
        audit,
        entries.assumption(),
        None if entries.both else entries.frequency.interval(),
    )


def _sizes(count: int) -> list[int]:
    return [size for size in CUTS if size < count] + ([count] if count else [])


def _promise(entries: EntryProbabilities, picked: Picked, log_odds: Floats, audit: Audit | None) -> Promise:
    if audit is not None and audit.answered:
        return from_probabilities(len(picked), log_odds, 0.0, audit.deviation)  # the shift is in the log odds already
    shape = entries.t.shape
    return entries.promise(picked.mask(shape), picked.mask(shape, only_by_rank=True))


def _log_odds(entries: EntryProbabilities, t: Floats) -> Floats:
    return np.asarray(logit(np.clip(entries.probability(t), 1e-6, 1 - 1e-6)))


def _audited(entries: EntryProbabilities, labels: LabelStore, answers: Sequence[Answer]) -> tuple[Audit | None, Bools]:
    """What the answers reveal, and the entries [N, C] that need not be asked again."""
    done = np.zeros(entries.t.shape, np.bool_)
    if not answers:
        return None, done
    places = Places(labels)
    t = []
    for answer in answers:
        known = answer.item in places.row and answer.label in places.column
        entry = (places.row[answer.item], places.column[answer.label]) if known else None
        if entry and answer.answer is not None:
            done[entry] = True
        if answer.kind == "missing" and answer.answer in (YES, NO):
            t.append(entries.t[entry] if entry else np.nan)
    scores = np.array(t, np.float64)
    log_odds = np.full(len(scores), np.nan)
    finite = np.isfinite(scores)
    log_odds[finite] = _log_odds(entries, scores[finite])
    return audit_answers(answers, log_odds), done


def _doubted(
    entries: EntryProbabilities, labels: LabelStore, group_of: Mapping[int, str], most: int, before: int, done: Bools
) -> tuple[list[Suggestion], Promise | None]:
    """Observed labels that are probably wrong, and the share of them that is."""
    doubts = [("positive", entries.positive & ~done, entries.frequency.wrong)]
    if entries.both:  # else the negatives are themselves candidates, or were chosen by somebody
        doubts.append(("negative", entries.negative & ~done & entries.positive.any(axis=0), entries.frequency.missing))
    found = []
    for was, doubtful, chance_of in doubts if most else ():
        row, label = np.nonzero(doubtful)
        extreme = np.argsort(entries.t[row, label] * (1 if was == "positive" else -1), kind="stable")[:most]
        chances = chance_of(entries.t[row, label][extreme])
        for place, p in zip(extreme.tolist(), chances.tolist(), strict=True):
            if p >= _LIKELY_WRONG:
                item, name = str(labels.ids[int(row[place])]), labels.names[int(label[place])]
                found.append(Suggestion(0, item, name, "wrong", was, p, group_of.get(int(label[place]), "")))
    found = sorted(found, key=lambda one: -one.probability)[:most]
    if not found:
        return [], None
    log_odds = logit(np.clip([one.probability for one in found], 1e-6, 1 - 1e-6))
    ranked = [replace(one, rank=before + number) for number, one in enumerate(found, start=1)]
    return ranked, from_probabilities(len(found), log_odds, 0.0, 1.0)
