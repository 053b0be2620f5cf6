"""Answers against the labels as they are now: what changes, what stays, and what nobody may decide silently."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from raretag.core.errors import UserError
from raretag.labels.corrections import Places, State
from raretag.runs.record import write_text
from raretag.suggest.answers import NO, UNSURE, YES, Answer

STATE_OF: dict[str, State] = {YES: "positive", NO: "negative", UNSURE: "unknown"}
NO_ITEM = "there is no such item"


@dataclass(frozen=True)
class Line:
    """One line of the log."""

    item: str
    label: str
    before: str
    after: str
    outcome: str  # changed, already so, conflict
    reason: str = ""


@dataclass
class Settled:
    changes: dict[tuple[str, str], State] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    unanswered: int = 0

    def count(self, outcome: str) -> int:
        return sum(line.outcome == outcome for line in self.lines)

    @property
    def conflicts(self) -> list[Line]:
        return [line for line in self.lines if line.outcome == "conflict"]

    def before(self, item: str, label: str) -> str:
        return next(line.before for line in self.lines if (line.item, line.label) == (item, label))


def settle(
    answers: Iterable[Answer], parts: Sequence[Places], can_write: Callable[[str], bool] = lambda state: True
) -> Settled:
    """`parts` hold the labels as they are now; `can_write` says which states the file to be written has room for."""
    settled = Settled()
    by_entry: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        if answer.answer is None:
            settled.unanswered += 1
        else:
            by_entry.setdefault((answer.item, answer.label), []).append(answer)
    for (item, label), given in by_entry.items():
        line = _line(item, label, given, parts, can_write)
        settled.lines.append(line)
        if line.outcome == "changed":
            settled.changes[item, label] = line.after  # type: ignore[assignment]
    if settled.lines and all(line.reason == NO_ITEM for line in settled.lines):
        first = settled.lines[0].item
        raise UserError(f"none of the answered items, such as '{first}', is in the data; are these answers about it?")
    return settled


def _line(
    item: str, label: str, given: list[Answer], parts: Sequence[Places], can_write: Callable[[str], bool]
) -> Line:
    place = next((part for part in parts if item in part.row), None)
    words = list(dict.fromkeys(str(answer.answer) for answer in given))
    if place is None:
        return Line(item, label, "", "", "conflict", NO_ITEM)
    if label not in place.column:
        return Line(item, label, "", "", "conflict", "there is no such label")
    now = place.state(item, label)
    if len(words) > 1:
        return Line(item, label, now, now, "conflict", f"answered {' and '.join(words)}")
    wanted = STATE_OF[words[0]]
    was = next((answer.was for answer in given if answer.was), None)
    if now == wanted:
        return Line(item, label, now, now, "already so")
    if was is not None and was != now:
        return Line(item, label, now, now, "conflict", f"was {was} when asked, is {now} now, the answer is {words[0]}")
    if not can_write(wanted):
        return Line(item, label, now, now, "conflict", f"the file cannot say {wanted} of a label, --as corrections can")
    return Line(item, label, now, wanted, "changed")


def write_log(path: Path, settled: Settled) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("item", "label", "before", "after", "outcome", "reason"))
    writer.writerows((x.item, x.label, x.before, x.after, x.outcome, x.reason) for x in settled.lines)
    write_text(path, text.getvalue())
