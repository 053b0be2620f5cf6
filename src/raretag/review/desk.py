"""What the page shows: the suggestions with their items, the answers so far, and what these say of the promise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from raretag.config.settings import Config
from raretag.core.errors import UserError
from raretag.data.dataset import DataSet
from raretag.data.inputs.images import Images
from raretag.data.inputs.preview import original, preview
from raretag.data.inputs.text import SideBySide, Texts
from raretag.data.inputs.tokens import TokenInputs
from raretag.data.sources import group_counts
from raretag.labels.corrections import Places
from raretag.labels.counts import groups
from raretag.review.log import ANSWERS, AnswerLog
from raretag.suggestions.answers import NO, YES, Answer
from raretag.suggestions.listing import Suggestion, Suggestions
from raretag.suggestions.promise import from_probabilities, of_part, shift_by_answers

ORDERS = ("teach", "sure", "random")
OPEN, ANSWERED, CONFLICT = "open", "answered", "conflict"
OWN = "own"  # the kind of an answer that nobody suggested
MOST_AT_ONCE = 500  # answers in one action
LETTERS = 20_000


@dataclass(frozen=True)
class Filter:
    """Which suggestions to show, in which order."""

    label: str = ""
    group: str = ""
    kind: str = ""
    state: str = OPEN
    low: float = 0.0
    high: float = 1.0
    search: str = ""
    order: str = "teach"

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Filter:
        """From the query of an address."""
        try:
            low, high = float(given.get("low", 0)), float(given.get("high", 1))
        except ValueError:
            raise UserError("low and high are probabilities; expected numbers from 0 to 1") from None
        order, state = given.get("order", "teach"), given.get("state", OPEN)
        if order not in ORDERS or state not in ("", OPEN, ANSWERED, CONFLICT):
            raise UserError(f"order={order!r}, state={state!r}; expected an order of {', '.join(ORDERS)}")
        words = {name: given.get(name, "") for name in ("label", "group", "kind", "search")}
        return cls(state=state, low=low, high=high, order=order, **words)


class Desk:
    """Everything that a review is about. Numbers of questions are places in the list."""

    def __init__(self, name: str, config: Config, data: DataSet, found: Suggestions, log: AnswerLog) -> None:
        self.name, self.config, self.data, self.found, self.log = name, config, data, found, log
        self.places = Places(data.train.labels)
        strangers = next((one for one in found if one.item not in self.places.row), None)
        if strangers is not None:
            raise UserError(f"the list asks about the item '{strangers.item}', which '{data.name}' does not have")
        self.questions: list[Suggestion] = list(found)
        self.number = {(one.item, one.label): number for number, one in enumerate(self.questions)}
        self.row = np.array([self.places.row[one.item] for one in self.questions], np.int64)
        self.probability = np.array([one.probability for one in self.questions])
        self.label = np.array([one.label for one in self.questions], object)
        self.group = np.array([one.group for one in self.questions], object)
        self.kind = np.array([one.kind for one in self.questions], object)
        self.state = np.full(len(self.questions), OPEN, object)
        self.word = np.full(len(self.questions), "", object)  # the answer, where there is one
        self._promise: dict[str, Any] | None = None  # as long as nobody answers
        self.disputed: set[tuple[str, str]] = set()  # entries that people answer differently
        self.positives = data.train.labels.statistics(cooccurrence=False).positives.tolist()
        members = groups(group_counts(data), config.group_edges)
        self.group_of = {int(label): name for name, some in members.items() for label in some}
        self.orders = {
            "sure": np.arange(len(self.questions)),  # as listed
            "random": _order(one.audit for one in self.questions),
            "teach": _order(one.turn for one in self.questions),
        }
        self.shape = data.input_shape  # of three dimensions: something to look at
        self._texts: list[str] | None = None
        self.log.changed.update(self.log.given)

    # -- what is asked

    def select(self, wanted: Filter) -> NDArray[np.int64]:
        """Numbers of questions, in order."""
        self._update()
        keep = (self.probability >= wanted.low) & (self.probability <= wanted.high)
        for column, word in ((self.label, wanted.label), (self.group, wanted.group), (self.kind, wanted.kind)):
            keep &= (column == word) if word else True
        keep &= (self.state == wanted.state) if wanted.state else True
        if wanted.search:
            keep &= np.array([wanted.search.casefold() in text for text in self._searched()], np.bool_)
        order = self.orders[wanted.order]
        return np.asarray(order[keep[order]])

    def items(self, wanted: Filter) -> list[int]:
        """Rows of items, each once, in the order of their first question."""
        return list(dict.fromkeys(self.row[self.select(wanted)].tolist()))

    def labels(self, wanted: Filter) -> list[str]:
        """Labels that some of these questions are about, the rarest first."""
        return sorted(
            set(self.label[self.select(wanted)]), key=lambda name: (self.positives[self.places.column[name]], name)
        )

    def item(self, row: int) -> dict[str, Any]:
        """An item with all its labels: the known ones, and the questions about it."""
        self._update()
        name = self._id(row)
        targets = self.data.train.labels.targets([row])
        order = self.orders["teach"]
        asked = order[self.row[order] == row].tolist()
        there = {self.questions[number].label for number in asked}
        known = [
            {"label": label, "answers": self._people(name, label)}
            for label, there_is in zip(self.data.train.labels.names, targets.positive[0] > 0.5, strict=True)
            if there_is and label not in there
        ]
        others = [
            {"label": label, "answers": self._people(item, label)}
            for item, label in self.log.given
            if item == name and label not in there and label not in {one["label"] for one in known}
        ]
        return {
            **self._look(row),
            "known": known,
            "own": others,
            "questions": [self.question(number) for number in asked],
        }

    def question(self, number: int, *, look: bool = False) -> dict[str, Any]:
        one = self.questions[number]
        return {
            "number": number,
            "label": one.label,
            "kind": one.kind,
            "was": one.was,
            "group": one.group,
            "probability": round(one.probability, 4),
            "state": self.state[number],
            "answers": self._people(one.item, one.label),
            **(self._look(int(self.row[number])) if look else {}),
        }

    def picture(self, row: int, side: int) -> bytes | None:
        """A JPEG made here; never the file itself, and never of a file outside the folder of the data."""
        inputs, place = original(self.data.train.inputs, row)
        if isinstance(inputs, Images) and not self._inside(inputs.paths[place]):
            return None
        return preview(inputs, place, side=side).image

    # -- answers

    def answer(self, by: str, given: Sequence[tuple[str, str, str]], *, settles: bool = False) -> None:
        """`given`: item, label, answer. On the disk when this returns."""
        if not 1 <= len(given) <= MOST_AT_ONCE:
            raise UserError(f"{len(given)} answers at once; expected 1 to {MOST_AT_ONCE}")
        answers = []
        for item, label, word in given:
            if item not in self.places.row or label not in self.places.column or word not in ANSWERS:
                raise UserError(f"the answer {word!r} to '{label}' of '{item}'; expected yes, no or unsure to a label")
            number = self.number.get((item, label))
            if number is None:
                answers.append(Answer(item, label, word, self.places.state(item, label), OWN))
            else:
                one = self.questions[number]
                answers.append(Answer(item, label, word, one.was, one.kind, one.audit))
        self.log.append(by, answers, settles=settles)

    def summary(self) -> dict[str, Any]:
        """Counts, the labels with what is open, and what the answers say of the promise."""
        self._update()
        self._promise = self.promise() if self._promise is None else self._promise
        open_ = self.state == OPEN
        labels: dict[str, dict[str, Any]] = {}
        for number, label in enumerate(self.label.tolist()):
            one = labels.setdefault(label, {"label": label, "open": 0, "listed": 0})
            one["listed"] += 1
            one["open"] += int(open_[number])
        for label, one in labels.items():
            column = self.places.column[label]
            one["known"], one["group"] = self.positives[column], self.group_of.get(column, "")
        words = [one.answer for people in self.log.given.values() for one in people.values()]
        return {
            "name": self.name,
            "data": self.data.name,
            "listed": len(self.questions),
            "open": int(open_.sum()),
            "answered": int((self.state == ANSWERED).sum()),
            "conflicts": len(self.disputed),
            "words": {word: words.count(word) for word in ANSWERS},
            "labels": sorted(labels.values(), key=lambda one: (one["known"], one["label"])),
            "all_labels": list(self.data.train.labels.names),
            "groups": sorted({one["group"] for one in labels.values() if one["group"]}),
            "promise": self._promise,
            "assumption": self.found.assumption,
            "damaged": self.log.damaged,
        }

    def promise(self) -> dict[str, Any]:
        """Of the answers so far: how many were right, what was promised for them, what to expect of the open ones."""
        missing = self.kind == "missing"
        if not missing.any() or not self.found.promises:
            return {"answered": 0}
        yes, sure = self.word == YES, missing & ((self.word == YES) | (self.word == NO))
        whole, answered = self.found.promises[-1], int(sure.sum())
        if not answered:
            return {"answered": 0, "expected": whole.as_dict()}
        log_odds, right = _log_odds(self.probability), int((sure & yes).sum())
        promised = of_part(whole, log_odds[missing], log_odds[sure])
        shift, deviation = shift_by_answers(log_odds[sure], yes[sure].astype(np.float64))
        rest = log_odds[missing & (self.state == OPEN)]
        coming = from_probabilities(len(rest), rest, shift, deviation) if len(rest) else None
        return {
            "answered": answered,
            "right": right,
            "promised": promised.as_dict(),
            "kept": promised.covers(right / answered),
            "expected": None if coming is None else coming.as_dict(),
        }

    # -- inside

    def _update(self) -> None:
        self.log.refresh()
        for entry in list(self.log.changed):
            self.log.changed.discard(entry)
            self._promise = None
            words = self.log.words(*entry)
            (self.disputed.add if len(words) > 1 else self.disputed.discard)(entry)
            number = self.number.get(entry)
            if number is not None:
                self.state[number] = OPEN if not words else ANSWERED if len(words) == 1 else CONFLICT
                self.word[number] = words[0] if len(words) == 1 else ""

    def _people(self, item: str, label: str) -> dict[str, str]:
        return {by: one.answer for by, one in self.log.given.get((item, label), {}).items()}

    def _id(self, row: int) -> str:
        if not 0 <= row < len(self.data.train):
            raise UserError(f"there is no item {row}")
        return str(self.data.train.labels.ids[row])

    def _look(self, row: int) -> dict[str, Any]:
        text, name = self._text(row), self._id(row)
        inputs, place = original(self.data.train.inputs, row)
        file = Path(inputs.paths[place]).name if isinstance(inputs, Images) else ""
        return {
            "row": row,
            "item": name,
            "image": not text and len(self.shape) == 3,
            "text": text,
            "file": "" if file in name else file,  # where items have no names of their own
        }

    def _text(self, row: int) -> str:
        inputs, place = original(self.data.train.inputs, row)
        return inputs.texts[place][:LETTERS] if isinstance(inputs, Texts | SideBySide | TokenInputs) else ""

    def _inside(self, path: str) -> bool:
        """Read again: since the data was loaded a file may have become a link that leads elsewhere."""
        options = self.config.data.options
        if self.config.data.name != "table" or options.get("allow_outside"):
            return True
        root = os.path.realpath(Path(str(options.get("folder") or Path(str(options["file"])).parent)).expanduser())
        return os.path.commonpath([root, os.path.realpath(path)]) == root

    def _searched(self) -> list[str]:
        if self._texts is None:
            texts = {row: self._text(row) for row in dict.fromkeys(self.row.tolist())}
            self._texts = [
                f"{one.item}\n{one.label}\n{texts[int(row)]}".casefold()
                for one, row in zip(self.questions, self.row, strict=True)
            ]
        return self._texts


def _order(places: Iterable[int | None]) -> NDArray[np.int64]:
    """Questions by their place; those without one come last, as listed."""
    return np.argsort([np.inf if place is None else place for place in places], kind="stable")


def _log_odds(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(logit(np.clip(probability, 1e-6, 1 - 1e-6)), np.float64)
