"""The list of suggestions: picked, with probabilities and promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit
from torch import Tensor

from raretag.core import chance
from raretag.labels.corrections import Places
from raretag.labels.store import LabelStore
from raretag.suggest import audit as audits
from raretag.suggest.answers import NO, YES, Answer
from raretag.suggest.evidence import Evidence, weigh
from raretag.suggest.pick import Picked, pick
from raretag.suggest.promise import Promise, from_probabilities
from raretag.suggest.scale import Bools, Floats

CUTS = (50, 100, 200, 500, 1000, 2000, 5000)
_PURPOSE = int.from_bytes(b"audit", "big")
_LIKELY_WRONG = 0.05  # below this nobody wants to look at an observed label again


@dataclass(frozen=True)
class Suggestion:
    rank: int
    item: str
    label: str
    kind: str  # "missing": probably a positive that nobody marked; "wrong": an observed label that is probably not so
    was: str
    probability: float  # that the suggestion is right
    group: str
    audit: int | None = None  # the place in a random order: answering 1, 2, 3, ... is a random sample
    answer: str = ""


@dataclass(frozen=True)
class Listing:
    suggestions: list[Suggestion]
    promises: list[Promise]  # of the first ones, for several cuts
    promise_of_wrong: Promise | None
    audit: audits.Audit | None
    assumption: str
    kept: tuple[float, float, float] | None  # share of the positives that are marked: median and interval

    @property
    def missing(self) -> list[Suggestion]:
        return [one for one in self.suggestions if one.kind == "missing"]

    def summary(self) -> dict[str, Any]:
        return {
            "missing": len(self.missing),
            "wrong": len(self.suggestions) - len(self.missing),
            "promises": [promise.as_dict() for promise in self.promises],
            "promise_of_wrong": None if self.promise_of_wrong is None else self.promise_of_wrong.as_dict(),
            "assumption": self.assumption,
            "kept": None if self.kept is None else {"median": self.kept[0], "interval": list(self.kept[1:])},
            "audit": None if self.audit is None else {"said": self.audit.said(), "shift": self.audit.shift},
        }


def list_suggestions(
    logits: Floats,
    labels: LabelStore,
    groups: Mapping[str, Tensor],
    *,
    most: int = 500,
    quota: float = 0.3,
    kept: float | None = None,
    wrong: int = 50,
    answered: Sequence[Answer] = (),
    seed: int = 0,
) -> Listing:
    """`logits` [N, C] are out of fold; `answered` are answers to an earlier list of the same labels."""
    evidence = weigh(logits, labels.targets(), kept)
    told, done = _audited(evidence, labels, answered)
    evidence = replace(evidence, candidates=evidence.candidates & ~done)
    picked = pick(evidence.t, evidence.candidates, most, quota)
    log_odds = _log_odds(evidence, evidence.t[picked.row, picked.label]) + (told.shift if told else 0.0)
    group_of = {int(label): name for name, members in groups.items() for label in members}
    order = chance.permutation(len(picked), _PURPOSE, seed).tolist()
    place = {row: number for number, row in enumerate(order, start=1)}
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
        )
        for number in range(len(picked))
    ]
    doubted, promise_of_wrong = _doubted(evidence, labels, group_of, wrong, len(found), done)
    return Listing(
        found + doubted,
        [_promise(evidence, picked.first(size), log_odds[:size], told) for size in _sizes(len(picked))],
        promise_of_wrong,
        told,
        evidence.assumption(),
        None if evidence.both else evidence.kept.interval(),
    )


def _sizes(count: int) -> list[int]:
    return [size for size in CUTS if size < count] + ([count] if count else [])


def _promise(evidence: Evidence, picked: Picked, log_odds: Floats, told: audits.Audit | None) -> Promise:
    if told is not None and told.answered:
        return from_probabilities(len(picked), log_odds, 0.0, told.deviation)  # the shift is in the log odds already
    shape = evidence.t.shape
    return evidence.promise(picked.mask(shape), picked.mask(shape, only_by_rank=True))


def _log_odds(evidence: Evidence, t: Floats) -> Floats:
    return np.asarray(logit(np.clip(evidence.probability(t), 1e-6, 1 - 1e-6)))


def _audited(evidence: Evidence, labels: LabelStore, answers: Sequence[Answer]) -> tuple[audits.Audit | None, Bools]:
    """What the answers say, and the entries [N, C] that need not be asked again."""
    done = np.zeros(evidence.t.shape, np.bool_)
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
            t.append(evidence.t[entry] if entry else np.nan)
    scores = np.array(t, np.float64)
    log_odds = np.full(len(scores), np.nan)
    finite = np.isfinite(scores)
    log_odds[finite] = _log_odds(evidence, scores[finite])
    return audits.of_answers(answers, log_odds), done


def _doubted(
    evidence: Evidence, labels: LabelStore, group_of: Mapping[int, str], most: int, before: int, done: Bools
) -> tuple[list[Suggestion], Promise | None]:
    """Observed labels that are probably wrong, and how many of them are."""
    doubts = [("positive", evidence.positive & ~done, evidence.kept.wrong)]
    if evidence.both:  # else the negatives are themselves candidates, or were chosen by somebody
        doubts.append(("negative", evidence.negative & ~done & evidence.positive.any(axis=0), evidence.kept.missing))
    found = []
    for was, entries, chance_of in doubts if most else ():
        row, label = np.nonzero(entries)
        extreme = np.argsort(evidence.t[row, label] * (1 if was == "positive" else -1), kind="stable")[:most]
        chances = chance_of(evidence.t[row, label][extreme])
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
