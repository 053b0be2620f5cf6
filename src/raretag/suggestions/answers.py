"""Answers that people gave, read from files and merged into the labels as they are now.

Files are the CSV or JSONL of suggestions with `answer` filled in, or an export of Label Studio. Merging finds what
changes, what stays, and the conflicts, which nobody may decide silently.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raretag.config.settings import Config
from raretag.core.errors import UserError
from raretag.core.files import write_text
from raretag.core.spreadsheets import guarded, unguarded
from raretag.data.fingerprint import LABELS, MATCH, fingerprint, refuse_changed
from raretag.data.sources import find_source, load
from raretag.labels import corrections
from raretag.labels.corrections import Places, State
from raretag.runs import manifest

YES, NO, UNSURE = "yes", "no", "unsure"
_WORDS = {
    **dict.fromkeys(("yes", "y", "1", "true", "positive"), YES),
    **dict.fromkeys(("no", "n", "0", "false", "negative"), NO),
    **dict.fromkeys(("unsure", "?", "unknown", "-1", "maybe"), UNSURE),
}
_LARGEST = 1 << 30  # bytes; a longer file is no list that people have answered
STATE_OF: dict[str, State] = {YES: "positive", NO: "negative", UNSURE: "unknown"}
NO_ITEM = "there is no such item"


@dataclass(frozen=True)
class Answer:
    """`answer` is None where nobody has answered yet."""

    item: str
    label: str
    answer: str | None
    was: str | None = None
    kind: str = "missing"
    audit: int | None = None  # the place in a random order of the list


def read(path: Path) -> list[Answer]:
    """All rows of a file of suggestions, answered or not."""
    if not path.is_file():
        raise UserError(f"the answers '{path}' do not exist; expected a CSV, JSONL or Label Studio export")
    if path.stat().st_size > _LARGEST:
        raise UserError(f"'{path}' is larger than 1 GB; expected a list of answered suggestions")
    ending = path.suffix.lower()
    readers = {".csv": _csv, ".jsonl": _jsonl, ".ndjson": _jsonl, ".json": _label_studio}
    if ending not in readers:
        raise UserError(f"the answers '{path.name}' end in '{ending}'; expected {', '.join(readers)}")
    try:
        rows = list(readers[ending](path))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"'{path.name}' is not text in UTF-8: {error}") from None
    if not rows:
        raise UserError(f"'{path.name}' has no rows; was it saved completely?")
    return [_answer(row, where) for where, row in rows]


def _csv(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        lacking = [name for name in ("item", "label", "answer") if name not in (reader.fieldnames or ())]
        if lacking:
            raise UserError(f"{path.name} has no column {', '.join(lacking)}; expected item, label and answer")
        for row in reader:
            cells = {name: unguarded(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
            yield f"{path.name}, line {reader.line_num}", cells


def _jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                where = f"{path.name}, line {number}"
                yield where, _object(_parsed(line, where), where)


def _label_studio(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The full export (tasks with annotations) and the short one (JSON-MIN)."""
    tasks = _parsed(path.read_text(encoding="utf-8-sig"), path.name)
    if not isinstance(tasks, list):
        raise UserError(f"{path.name} holds {type(tasks).__name__}; expected a list of tasks, as Label Studio exports")
    for number, task in enumerate(tasks, start=1):
        where = f"{path.name}, task {number}"
        task = _object(task, where)
        if "data" not in task:
            yield where, task
            continue
        data = _object(task["data"], where)
        given = [
            choice
            for annotation in task.get("annotations") or ()
            if isinstance(annotation, dict) and not annotation.get("was_cancelled")
            for result in annotation.get("result") or ()
            if isinstance(result, dict)
            for choice in (result.get("value") or {}).get("choices") or ()
        ]
        for choice in given or [None]:  # several people may have answered one task
            yield where, {**data, "answer": choice}


def _answer(row: dict[str, Any], where: str) -> Answer:
    item, label = (str(row.get(name, "") if row.get(name) is not None else "").strip() for name in ("item", "label"))
    if not item or not label:
        raise UserError(f"{where}: no {'item' if not item else 'label'}; expected a row that `raretag suggest` wrote")
    word = row.get("answer")
    word = word[0] if isinstance(word, list) and word else word
    given = "" if word is None or word == [] else str(word).strip().lower()
    if given and given not in _WORDS:
        raise UserError(f"{where}: the answer {str(word)!r}; expected yes, no, unsure, or nothing")
    audit = str(row.get("audit") or "").strip()
    return Answer(
        item,
        label,
        _WORDS.get(given),
        str(row["was"]).strip() if row.get("was") else None,
        str(row.get("kind") or "missing").strip(),
        int(audit) if audit.isdigit() else None,
    )


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error})") from None


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where}: {type(value).__name__}; expected an object with item, label and answer")
    return value


@dataclass(frozen=True)
class MergeLine:
    """What became of the answers to one entry: a line of the log."""

    item: str
    label: str
    before: str
    after: str
    outcome: str  # changed, already so, conflict
    reason: str = ""


@dataclass
class Merged:
    """The changes to the labels, with a line for every answered entry."""

    changes: dict[tuple[str, str], State] = field(default_factory=dict)
    lines: list[MergeLine] = field(default_factory=list)
    unanswered: int = 0

    def count(self, outcome: str) -> int:
        return sum(line.outcome == outcome for line in self.lines)

    @property
    def conflicts(self) -> list[MergeLine]:
        return [line for line in self.lines if line.outcome == "conflict"]

    def before(self, item: str, label: str) -> str:
        return next(line.before for line in self.lines if (line.item, line.label) == (item, label))


def merge_answers(
    answers: Iterable[Answer], parts: Sequence[Places], can_write: Callable[[str], bool] = lambda state: True
) -> Merged:
    """`parts` hold the labels as they are now; `can_write`: whether the file to be written has room for a state."""
    merged = Merged()
    by_entry: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        if answer.answer is None:
            merged.unanswered += 1
        else:
            by_entry.setdefault((answer.item, answer.label), []).append(answer)
    for (item, label), given in by_entry.items():
        line = _line(item, label, given, parts, can_write)
        merged.lines.append(line)
        if line.outcome == "changed":
            merged.changes[item, label] = STATE_OF[str(given[0].answer)]
    if merged.lines and all(line.reason == NO_ITEM for line in merged.lines):
        first = merged.lines[0].item
        raise UserError(f"none of the answered items, such as '{first}', is in the data; are these answers about it?")
    return merged


def _line(
    item: str, label: str, given: list[Answer], parts: Sequence[Places], can_write: Callable[[str], bool]
) -> MergeLine:
    place = next((part for part in parts if item in part.row), None)
    words = list(dict.fromkeys(str(answer.answer) for answer in given))
    if place is None:
        return MergeLine(item, label, "", "", "conflict", NO_ITEM)
    if label not in place.column:
        return MergeLine(item, label, "", "", "conflict", "there is no such label")
    now = place.state(item, label)
    if len(words) > 1:
        return MergeLine(item, label, now, now, "conflict", f"answered {' and '.join(words)}")
    wanted = STATE_OF[words[0]]
    was = next((answer.was for answer in given if answer.was), None)
    if now == wanted:
        return MergeLine(item, label, now, now, "already so")
    if was is not None and was != now:
        return MergeLine(
            item, label, now, now, "conflict", f"was {was} when asked, is {now} now, the answer is {words[0]}"
        )
    if not can_write(wanted):
        return MergeLine(item, label, now, now, "conflict", f"the file has no place for {wanted}, --as corrections has")
    return MergeLine(item, label, now, wanted, "changed")


def write_log(path: Path, merged: Merged) -> None:
    """One line per answered entry, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("item", "label", "before", "after", "outcome", "reason"))
    writer.writerows(
        [guarded(word) for word in (x.item, x.label, x.before, x.after, x.outcome, x.reason)] for x in merged.lines
    )
    write_text(path, text.getvalue())


def refuse_other_items(run: Path, config: Config) -> None:
    """Answers about a run's items must not go to others. Labels may have changed: each answer says what it found."""
    if before := manifest.data_of(run):
        refuse_changed(before, fingerprint(load(config.data, config.seed)), run, ignore=(LABELS, MATCH))


def apply_to_table(config: Config, answers: Iterable[Answer], out: Path) -> tuple[Merged, str]:
    """Write the table of `config` with the answers in it; also returns a remark for the user, or ''."""
    from raretag.data.table.rewrite import Writer
    from raretag.data.table.source import Table

    if config.data.corrections is not None:
        raise UserError("the run has data.corrections beside its table; continue with --as corrections")
    table = find_source(config.data, config.seed)
    assert isinstance(table, Table)
    store, absent = table.current()
    source, roles = table.opened()
    if out.suffix.lower() != source.path.suffix.lower():
        raise UserError(f"'{out.name}' must end in '{source.path.suffix}', like the table that it is made from")
    merged = merge_answers(answers, [Places(store)], Writer(roles, absent, roles.negatives).can_write)
    table.rewrite({**merged.changes}, out)
    remark = (
        "the table has no split column, so its parts depend on the labels, and with the new labels other items "
        "would be used for testing; --as corrections keeps the parts"
    )
    return merged, "" if roles.split is not None else remark


def apply_to_corrections(config: Config, answers: Iterable[Answer], out: Path) -> Merged:
    """Write a file of corrections: those that the data has so far, and the answers."""
    data = load(config.data, config.seed)
    parts = [data.train, *(part for part in (data.validation, data.test) if part.labels.given_ids is not None)]
    merged = merge_answers(answers, [Places(part.labels) for part in parts])
    before = corrections.read(Path(config.data.corrections).expanduser()) if config.data.corrections else []
    by_entry = {(one.item, one.label): one for one in before}
    for (item, label), state in merged.changes.items():
        first = by_entry[item, label].was if (item, label) in by_entry else merged.before(item, label)
        by_entry[item, label] = corrections.Correction(item, label, state, first)  # type: ignore[arg-type]
    corrections.write(out, by_entry.values())
    return merged
