"""Answers that people gave: the CSV or JSONL of suggestions with `answer` filled in, or an export of Label Studio."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError

YES, NO, UNSURE = "yes", "no", "unsure"
_WORDS = {
    **dict.fromkeys(("yes", "y", "1", "true", "positive"), YES),
    **dict.fromkeys(("no", "n", "0", "false", "negative"), NO),
    **dict.fromkeys(("unsure", "?", "unknown", "-1", "maybe"), UNSURE),
}
_LARGEST = 1 << 30  # bytes; a longer file is no list that people have answered


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
            yield f"{path.name}, line {reader.line_num}", row


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
    said = "" if word is None or word == [] else str(word).strip().lower()
    if said and said not in _WORDS:
        raise UserError(f"{where}: the answer {str(word)!r}; expected yes, no, unsure, or nothing")
    audit = str(row.get("audit") or "").strip()
    return Answer(
        item,
        label,
        _WORDS.get(said),
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
