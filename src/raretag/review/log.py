"""Answers on the disk: a log that only grows, one line of JSON per answer.

A line is on the disk before `append` returns. Several people, tabs or servers may write the same log: each person has
an answer of their own to an entry, nobody overwrites another's, and different answers are a conflict that somebody
settles. An answer is taken back by a line that says so, never by removing one. A line that a crash has torn is passed
over, and the next one begins on a line of its own.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError
from raretag.suggestions.answers import NO, UNSURE, YES, Answer

ANSWERS = (YES, NO, UNSURE)
Entry = tuple[str, str]  # item, label


@dataclass(frozen=True)
class Given:
    """What one person answered to one entry."""

    answer: str
    was: str | None
    kind: str
    audit: int | None


@dataclass
class _Batch:
    """What an action changed, so that it can be taken back: the person's answers before, and those it set aside."""

    number: str
    before: dict[Entry, Given | None] = field(default_factory=dict)
    set_aside: dict[Entry, dict[str, Given]] = field(default_factory=dict)


class AnswerLog:
    """The answers of a log file, as far as it has been read.

    >>> import tempfile
    >>> log = AnswerLog(Path(tempfile.mkdtemp()) / "answers.jsonl")
    >>> log.append("ann", [Answer("a.jpg", "sea", "yes")])
    >>> log.append("bob", [Answer("a.jpg", "sea", "no")])
    >>> log.words("a.jpg", "sea"), log.undo("bob"), log.words("a.jpg", "sea")
    (['yes', 'no'], [('a.jpg', 'sea')], ['yes'])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.given: dict[Entry, dict[str, Given]] = {}  # by entry, by person
        self.damaged = 0  # lines that could not be read
        self.changed: set[Entry] = set()  # entries that changed since somebody emptied this
        self._history: dict[str, list[_Batch]] = {}
        self._read = 0  # bytes
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            raise UserError(f"the answers '{path}' cannot be written: {error.strerror}") from None
        self.refresh()

    def words(self, item: str, label: str) -> list[str]:
        """The different answers to an entry: none, one, or more where people disagree."""
        return list(dict.fromkeys(one.answer for one in self.given.get((item, label), {}).values()))

    def answers(self) -> list[Answer]:
        """All that stands, one per person and entry, as `raretag.suggestions` takes them."""
        return [
            Answer(item, label, one.answer, one.was, one.kind, one.audit)
            for (item, label), people in self.given.items()
            for one in people.values()
        ]

    def append(self, by: str, answers: Sequence[Answer], *, settles: bool = False) -> None:
        """Answers of one person, on the disk when this returns; `settles`: they set aside what others have answered."""
        batch = f"{time.time_ns():x}-{os.urandom(4).hex()}"
        self._write(
            {
                "batch": batch,
                "by": by,
                "item": one.item,
                "label": one.label,
                "answer": one.answer,
                "was": one.was,
                "kind": one.kind,
                "audit": one.audit,
                **({"settles": True} if settles else {}),
            }
            for one in answers
        )

    def undo(self, by: str) -> list[Entry]:
        """Take back the last action of a person; returns its entries, which are none if nothing is left."""
        with self._lock:
            self.refresh()
            history = self._history.get(by)
            if not history:
                return []
            batch = history[-1]
            self._write([{"undo": batch.number, "by": by}])
            return list(batch.before)

    def refresh(self) -> None:
        """Read what has been added, by this process or another one."""
        with self._lock, self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.splitlines():
                if line.strip():
                    self._replay(line)

    def _write(self, lines: Any) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = "".join(json.dumps({"time": stamp, **line}, ensure_ascii=False) + "\n" for line in lines)
        with self._lock:
            with self.path.open("ab") as file, _locked(file):
                torn = file.tell() > 0 and not _ends_a_line(self.path)
                file.write((b"\n" if torn else b"") + text.encode())
                file.flush()
                os.fsync(file.fileno())
            self.refresh()

    def _replay(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            by = str(row["by"])
            if "undo" in row:
                self._take_back(by, str(row["undo"]))
                return
            entry, answer = (str(row["item"]), str(row["label"])), str(row["answer"])
            if answer not in ANSWERS:
                raise ValueError(answer)
            audit = row.get("audit")
            given = Given(
                answer, row.get("was"), str(row.get("kind", "missing")), None if audit is None else int(audit)
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            self.damaged += 1
            return
        people = self.given.setdefault(entry, {})
        history = self._history.setdefault(by, [])
        if not history or history[-1].number != row.get("batch"):
            history.append(_Batch(str(row.get("batch"))))
        history[-1].before.setdefault(entry, people.get(by))
        if row.get("settles"):
            history[-1].set_aside[entry] = {name: one for name, one in people.items() if name != by}
            people.clear()
        people[by] = given
        self.changed.add(entry)

    def _take_back(self, by: str, number: str) -> None:
        history = self._history.get(by, [])
        batch = next((one for one in history if one.number == number), None)
        if batch is None:
            return
        history.remove(batch)
        for entry, before in batch.before.items():
            people = self.given.setdefault(entry, {})
            people.pop(by, None)
            if before is not None:
                people[by] = before
            self.given[entry] = {**batch.set_aside.get(entry, {}), **people}
            if not self.given[entry]:
                del self.given[entry]
            self.changed.add(entry)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


@contextmanager
def _locked(file: Any) -> Iterator[None]:
    """One writer at a time, also of several processes, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows: appending alone must do
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        file.seek(0, os.SEEK_END)
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
