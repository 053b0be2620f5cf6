"""Your own data: a CSV, TSV, Parquet or JSONL file with one row an item, holding image paths, texts or features.

Which column is what is guessed and said, and can be told; see docs/your-data.md. A label is positive, negative or
unknown from the first cell on: a blank cell of a label column is unknown, and what a list of labels leaves out is
negative, unless there is a column of negatives or the user says otherwise (`absent`).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from raretag.core.errors import UserError
from raretag.data.reading.columns import texts
from raretag.data.reading.contents import read_contents
from raretag.data.reading.gather import look_alikes
from raretag.data.reading.parts import Parts, divide
from raretag.data.reading.prepare import Preparation, prepare
from raretag.data.reading.roles import Roles, Told, find_roles
from raretag.data.reading.source import Source, open_source
from raretag.labels.collection import DataSet, Items, Selected
from raretag.labels.store import LabelStore


class Table:
    def __init__(
        self,
        *,
        file: str,
        images: str | None = None,
        text: str | None = None,
        features: str | list[str] | None = None,
        labels: str | list[str] | None = None,
        negatives: str | None = None,
        split: str | None = None,
        id: str | None = None,
        delimiter: str | None = None,
        names: list[str] | None = None,
        absent: Literal["negative", "unknown"] | None = None,
        columns: list[str] | None = None,
        separator: str | None = None,
        quotes: bool | None = None,
        bad_items: Literal["fail", "skip"] = "fail",
        folder: str | None = None,
        allow_outside: bool = False,
        size: int = 128,
        fit: Literal["resize", "crop"] = "resize",
        augment: bool = True,
        representation: Literal["tfidf", "encoder"] = "tfidf",
        words: int = 20_000,
        ngrams: int = 1,
        encoder: str | None = None,
        standardise: bool = True,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        _check("absent", absent, (None, "negative", "unknown"))
        _check("bad_items", bad_items, ("fail", "skip"))
        _check("fit", fit, ("resize", "crop"))
        _check("representation", representation, ("tfidf", "encoder"))
        for option, value in {"images": images, "text": text, "negatives": negatives, "split": split, "id": id}.items():
            if value is not None and not isinstance(value, str):
                raise UserError(f"data.{option} is {value!r}; expected the name of a column, or '' for none")
        for option, listed in {"names": names, "columns": columns}.items():
            if listed is not None and not (isinstance(listed, list) and all(isinstance(x, str) for x in listed)):
                raise UserError(f"data.{option} is {listed!r}; expected a list of names, such as [a,b]")
        self.file, self.names, self.absent, self.seed, self.root = file, names, absent, seed, root
        self.columns, self.separator, self.quotes = columns, separator, quotes
        self.told = Told(images, text, features, labels, negatives, split, id, delimiter)
        self.preparation = Preparation(
            bad_items, folder, allow_outside, size, fit, augment,
            representation, words, ngrams, encoder, standardise, seed,
        )  # fmt: skip

    def load(self) -> DataSet:
        source, roles = self.opened()
        contents = read_contents(source, roles, self.names)
        prepared = prepare(source, roles, contents, self.preparation)
        labels = contents.labels.store(prepared.keep, contents.ids_of(prepared.keep), self.absent)
        given = None if contents.parts is None else [contents.parts[row] for row in prepared.keep.tolist()]
        parts = divide(labels, given, self.seed)
        inputs = prepared.finish(parts.rows["train"])
        train, validation, test = (Items(Selected(inputs, rows), labels.take(rows)) for rows in parts.in_order())
        return DataSet(
            source.path.stem,
            train,
            validation,
            test,
            notes=self._notes(source.path, roles, labels, parts),
            remarks=(
                f"{roles.labels_said} ({labels.labels:,} labels)",
                *look_alikes(labels.names),
                *roles.remarks,
                *contents.labels.remarks(self.absent),
                *prepared.remarks,
                *parts.remarks,
                *seen_in_training(labels, parts),
            ),
        )

    def opened(self) -> tuple[Source, Roles]:
        """The file, and which column is what."""
        source = open_source(self._path(), columns=self.columns, separator=self.separator, quotes=self.quotes)
        return source, find_roles(source.path, source.columns, source.head(), self.told)

    def current(self) -> tuple[LabelStore, str]:
        """The labels of all rows, whatever part they belong to, and what an unmentioned label is."""
        source, roles = self.opened()
        contents = read_contents(source, roles, self.names)
        rows = np.arange(contents.items)
        return contents.labels.store(rows, contents.ids_of(rows), self.absent), self.absent or labels_default(roles)

    def rewrite(self, states: dict[tuple[str, str], str], out: Path) -> None:
        """The same file with the labels of some (item, label) in another state."""
        from raretag.data.writing.cells import Writer
        from raretag.data.writing.rewrite import rewrite

        source, roles = self.opened()
        by_item: dict[str, dict[str, str]] = {}
        for (item, label), state in states.items():
            by_item.setdefault(item, {})[label] = state
        rewrite(source, Writer.of(roles, self.absent or labels_default(roles), states), by_item, out)

    def shown(self, items: set[str]) -> dict[str, dict[str, str]]:
        """What a person needs to see of some items: their text, or the path of their image."""
        source, roles = self.opened()
        column = roles.images or roles.text
        if column is None:
            return {}
        found, number = {}, 0
        wanted = [column, *([roles.id] if roles.id else [])]
        for batch in source.batches(wanted):
            words = texts(batch.column(column)).to_pylist()
            ids = texts(batch.column(roles.id)).to_pylist() if roles.id else None
            for row, word in enumerate(words):
                number += 1
                item = str(number) if ids is None else ids[row]
                if item in items:
                    found[item] = {"image" if roles.images else "text": word}
        return found

    def _path(self) -> Path:
        """The file as named from here, else from the folder of data sets."""
        path = Path(self.file).expanduser()
        if self.root is not None and not path.exists() and (self.root / path).exists():
            return self.root / path
        return path

    def _notes(self, path: Path, roles: Roles, labels: LabelStore, parts: Parts) -> dict[str, Any]:
        found = asdict(roles)
        del found["remarks"], found["cells"], found["labels_said"]
        return {
            "source": path.name,
            "bytes": path.stat().st_size,
            "columns": {role: name for role, name in found.items() if name},
            "delimiter": roles.cells.delimiter if roles.labels else None,
            "absent": self.absent or labels_default(roles),
            "labels_sha256": labels.fingerprint(),
            "seed": self.seed,
            **parts.notes,
        }


def labels_default(roles: Roles) -> str:
    """What a label is that the file does not mention, if nobody says otherwise: the safe reading of this file."""
    return "negative" if roles.labels and not roles.negatives else "unknown"


def seen_in_training(labels: LabelStore, parts: Parts) -> list[str]:
    """What nobody can learn must be known before training."""
    counts = labels.take(parts.rows["train"]).statistics(cooccurrence=False).positives
    never = [labels.names[label] for label in (counts == 0).nonzero().flatten().tolist()]
    if len(never) == labels.labels:
        raise UserError("no training item has a label: there is nothing to learn; is the label column the right one?")
    if not never:
        return []
    return [f"{len(never)} of {labels.labels} labels have no training item and cannot be learned, such as '{never[0]}'"]


def _check(option: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        known = ", ".join(repr(one) for one in allowed if one is not None)
        raise UserError(f"data.{option} is {value!r}; expected one of {known}")
