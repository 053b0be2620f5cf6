"""Suggestions for people: a CSV, the same as JSON Lines, and tasks with their page for Label Studio."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError
from raretag.runs.record import write_json, write_text
from raretag.suggest.listing import Listing, Suggestion

FILES = ("suggestions.csv", "suggestions.jsonl", "label-studio.json", "label-studio.xml", "summary.json")
Shown = Mapping[str, Mapping[str, str]]  # by item: {"text": ...} or {"image": ...}


def refuse_existing(folder: Path, *, overwrite: bool) -> None:
    """A list that somebody may have answered already is not replaced."""
    there = next((folder / name for name in FILES if (folder / name).exists()), None)
    if there is not None and not overwrite:
        raise UserError(f"'{there}' exists and may hold answers; replace it with --overwrite, or name another --out")


def write_all(folder: Path, listing: Listing, shown: Shown, about: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder '{folder}' cannot be made: {error.strerror}") from None
    rows = [row_of(one, shown) for one in listing.suggestions]
    write_text(folder / FILES[0], _csv(rows))
    write_text(folder / FILES[1], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    write_json(folder / FILES[2], [task_of(one, shown) for one in listing.suggestions])
    write_text(folder / FILES[3], page_of(shown))
    write_json(folder / FILES[4], {**about, **listing.summary()})


def row_of(one: Suggestion, shown: Shown) -> dict[str, Any]:
    row = {**asdict(one), "probability": round(one.probability, 4), "audit": "" if one.audit is None else one.audit}
    return {**row, **shown.get(one.item, {})}


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [field.name for field in fields(Suggestion)]
    names += [name for name in ("text", "image") if any(name in row for row in rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def task_of(one: Suggestion, shown: Shown) -> dict[str, Any]:
    """A task a suggestion: yes, no and unsure are then three different answers."""
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
            **shown.get(one.item, {}),
        },
        "predictions": [{"model_version": "raretag", "score": round(one.probability, 4), "result": [result]}],
    }


def page_of(shown: Shown) -> str:
    """The labelling interface: the item, the question, three answers."""
    images = any("image" in value for value in shown.values())
    item = '<Image name="item" value="$image"/>' if images else '<Text name="item" value="$text"/>'
    return (
        "<View>\n"
        f"  {item}\n"
        '  <Header value="$question"/>\n'
        '  <Choices name="answer" toName="item" choice="single" showInline="true">\n'
        '    <Choice value="yes"/>\n    <Choice value="no"/>\n    <Choice value="unsure"/>\n'
        "  </Choices>\n</View>\n"
    )
