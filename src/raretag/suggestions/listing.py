"""The list of suggestions, and its files for people: CSV, JSON Lines, and tasks with their page for Label Studio."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, overload

from raretag.core.errors import UserError
from raretag.core.files import write_json, write_text
from raretag.core.spreadsheets import guarded
from raretag.suggestions.promise import Audit, Promise

LOCAL_FILES = "/data/local-files/?d="  # how Label Studio opens files below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT
FILES = ("suggestions.csv", "suggestions.jsonl", "label-studio.json", "label-studio.xml", "summary.json")
Previews = Mapping[str, Mapping[str, str]]  # by item: {"text": ...} or {"image": ...}


@dataclass(frozen=True)
class Suggestion:
    """An entry of the labels that somebody should look at."""

    rank: int
    item: str  # its id; its row in the training part, from 0, where the data has no ids
    label: str
    kind: str  # "missing": probably a positive that nobody marked; "wrong": an observed label that is probably not so
    was: str
    probability: float  # that the suggestion is right
    group: str
    audit: int | None = None  # the place in a random order: answering 1, 2, 3, ... is a random sample
    answer: str = ""
    turn: int | None = None  # the place in the order that teaches rare labels soonest


@dataclass(frozen=True)
class Suggestions(Sequence[Suggestion]):
    """A list of suggestions, the missing positives first, with what to expect of it.

    >>> found = Suggestions([Suggestion(1, "a.jpg", "sea", "missing", "unknown", 0.93, "head", audit=1)])
    >>> found[0].label, len(found.missing)
    ('sea', 1)
    >>> print(found.to_csv())
    rank,item,label,kind,was,probability,group,audit,answer,turn
    1,a.jpg,sea,missing,unknown,0.93,head,1,,
    <BLANKLINE>
    """

    suggestions: list[Suggestion]
    promises: list[Promise] = field(default_factory=list)  # what to expect of the first ones, for several cuts
    promise_of_wrong: Promise | None = None
    audit: Audit | None = None  # what the answers to an earlier list reveal
    assumption: str = ""  # what promises and probabilities rest on
    label_frequency: tuple[float, float, float] | None = None  # share of positives that are marked: median, interval
    previews: Previews = field(default_factory=dict)  # text or image path by item, where the data has them

    @overload
    def __getitem__(self, place: int) -> Suggestion: ...

    @overload
    def __getitem__(self, place: slice) -> list[Suggestion]: ...

    def __getitem__(self, place: int | slice) -> Suggestion | list[Suggestion]:
        return self.suggestions[place]

    def __len__(self) -> int:
        return len(self.suggestions)

    @property
    def missing(self) -> list[Suggestion]:
        """Positives that are probably not marked yet, the likeliest first."""
        return [one for one in self.suggestions if one.kind == "missing"]

    @property
    def wrong(self) -> list[Suggestion]:
        """Observed labels that are probably wrong, the likeliest first."""
        return [one for one in self.suggestions if one.kind == "wrong"]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per suggestion, with the text or image of its item; `pandas.DataFrame` takes this list."""
        return [
            {
                **asdict(one),
                "probability": round(one.probability, 4),
                "audit": "" if one.audit is None else one.audit,
                "turn": "" if one.turn is None else one.turn,
                **self.previews.get(one.item, {}),
            }
            for one in self.suggestions
        ]

    def to_csv(self, path: Path | str | None = None, *, raw: bool = False) -> str:
        """The list as CSV, with an empty column `answer` for people to fill in; also written to `path`, if given.

        Texts that a spreadsheet would run as a formula get an apostrophe in front, unless `raw`.
        """
        rows = self.rows()
        if not raw:
            rows = [{name: guarded(x) if isinstance(x, str) else x for name, x in row.items()} for row in rows]
        names = [field.name for field in fields(Suggestion)]
        names += [name for name in ("text", "image") if any(name in row for row in rows)]
        text = io.StringIO()
        writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if path is not None:
            write_text(Path(path), text.getvalue())
        return text.getvalue()

    def summary(self) -> dict[str, Any]:
        """Sizes, promises and assumptions, ready for JSON."""
        known, audit = self.label_frequency, self.audit
        return {
            "missing": len(self.missing),
            "wrong": len(self.wrong),
            "promises": [promise.as_dict() for promise in self.promises],
            "promise_of_wrong": None if self.promise_of_wrong is None else self.promise_of_wrong.as_dict(),
            "assumption": self.assumption,
            "kept": None if known is None else {"median": known[0], "interval": list(known[1:])},
            "audit": None if audit is None else {"said": audit.sentence(), "shift": audit.shift},
        }


def refuse_existing(folder: Path, *, overwrite: bool) -> None:
    """A list that somebody may have answered already is not replaced."""
    there = next((folder / name for name in FILES if (folder / name).exists()), None)
    if there is not None and not overwrite:
        raise UserError(f"'{there}' exists and may hold answers; replace it with --overwrite, or name another --out")


def write_all(
    folder: Path, found: Suggestions, about: dict[str, Any], images: str = LOCAL_FILES, *, raw_cells: bool = False
) -> None:
    """All files of a list into a folder; `about` goes to the summary, `images` before paths for Label Studio."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder '{folder}' cannot be made: {error.strerror}") from None
    found.to_csv(folder / FILES[0], raw=raw_cells)
    write_text(folder / FILES[1], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found.rows()))
    write_json(folder / FILES[2], [task_of(one, found.previews, images) for one in found])
    write_text(folder / FILES[3], page_of(found.previews))
    write_json(folder / FILES[4], {**about, **found.summary()})


def opened(path: str, prefix: str = LOCAL_FILES) -> str:
    """The address under which Label Studio opens an image; one that is an address already stays.

    >>> opened("photos/a.jpg"), opened("photos/a.jpg", "https://example.org/")
    ('/data/local-files/?d=photos/a.jpg', 'https://example.org/photos/a.jpg')
    """
    return path if "://" in path or path.startswith("/data/") else prefix + path.lstrip("/")


def read_all(folder: Path) -> tuple[Suggestions, dict[str, Any]]:
    """What `write_all` wrote: the list, and its summary."""
    names = [field.name for field in fields(Suggestion)]
    try:
        lines = (folder / FILES[1]).read_text(encoding="utf-8").splitlines()
        about = json.loads((folder / FILES[4]).read_text(encoding="utf-8"))
        rows = [json.loads(line) for line in lines if line.strip()]
        found = [Suggestion(**{name: row.get(name, "") for name in names}) for row in rows]
        found = [replace(one, audit=one.audit or None, turn=one.turn or None) for one in found]
        promises = [Promise.read(one) for one in about["promises"]]
        of_wrong = about["promise_of_wrong"] and Promise.read(about["promise_of_wrong"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{folder}' holds no list of suggestions that can be read ({error}); `raretag suggest` makes one"
        ) from None
    previews = {row["item"]: {name: row[name] for name in ("text", "image") if name in row} for row in rows}
    kept = about.get("kept")
    frequency = None if kept is None else (kept["median"], *kept["interval"])
    return Suggestions(found, promises, of_wrong, None, about.get("assumption", ""), frequency, previews), about


def task_of(one: Suggestion, previews: Previews, images: str = LOCAL_FILES) -> dict[str, Any]:
    """One task per suggestion: yes, no and unsure are then three different answers."""
    shown = dict(previews.get(one.item, {}))
    if "image" in shown:
        shown["image"] = opened(shown["image"], images)
    likely = one.probability >= 0.5
    guess = "yes" if (one.was != "positive") == likely else "no"
    result = {"from_name": "answer", "to_name": "item", "type": "choices", "value": {"choices": [guess]}}
    return {
        "data": {
            "question": f"Is '{one.label}' right for this item?",
            "item": one.item,
            "label": one.label,
            "kind": one.kind,
            "was": one.was,
            "probability": round(one.probability, 4),
            "audit": one.audit,
            "text": one.item,
            **shown,
        },
        "predictions": [{"model_version": "raretag", "score": round(one.probability, 4), "result": [result]}],
    }


def page_of(previews: Previews) -> str:
    """The labelling interface: the item, the question, three answers."""
    images = any("image" in value for value in previews.values())
    item = '<Image name="item" value="$image"/>' if images else '<Text name="item" value="$text"/>'
    return (
        "<View>\n"
        f"  {item}\n"
        '  <Header value="$question"/>\n'
        '  <Choices name="answer" toName="item" choice="single" showInline="true">\n'
        '    <Choice value="yes"/>\n    <Choice value="no"/>\n    <Choice value="unsure"/>\n'
        "  </Choices>\n</View>\n"
    )
