"""Your own data: a CSV, TSV, Parquet or JSONL file with one row per item, holding images, texts, numbers, categories.

Which column is what is guessed, with a remark, or given; see docs/your-data.md. A label is positive, negative or
unknown from the first cell on: a blank cell of a label column is unknown, and what a list of labels leaves out is
negative, unless there is a column of negatives or the user says otherwise (`absent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from raretag.core import registry
from raretag.core.errors import UserError, counted
from raretag.data.dataset import DataSet, Parts, divide
from raretag.data.fingerprint import content_keys
from raretag.data.inputs.images import Images
from raretag.data.inputs.representation import Kind, TextOptions
from raretag.data.table.cells import texts
from raretag.data.table.contents import read_contents
from raretag.data.table.formats import Source, open_source
from raretag.data.table.inputs import Preparation, prepare
from raretag.data.table.labels import look_alikes
from raretag.data.table.rewrite import Writer, rewrite
from raretag.data.table.roles import Given, Roles, find_roles
from raretag.labels.store import LabelStore


def from_table(file: str | Path, *, seed: int = 0, **options: Any) -> DataSet:
    """A data set from a CSV, TSV, Parquet or JSONL file with one row per item.

    What is not given is guessed from the names of the columns and from the first rows; `remarks` of the result tells
    what was guessed. `docs/your-data.md` has every option; these are the ones to know:

    Args:
        file: the table.
        seed: decides which items are dealt to which part, where the file has no split column.
        images, text, features: the column of image paths, the column of texts, or the columns of numbers.
        labels: the column that lists the labels of an item, or one column per label.
        negatives, split, id: the columns of labels that an item does not have, of its part, and of its name.
        absent: what a label is that is not mentioned, "negative" or "unknown".
        names: all labels, in order.
        validation, test: the shares of the training items that are dealt to these parts; default: 10 % and 20 % of all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "tags.csv"
    ...     _ = file.write_text("text,tags\\n" + "a red car,car;red\\na blue bird,bird\\n" * 10)
    ...     data = from_table(file, labels="tags")
    >>> data.train.labels.names, len(data.train)
    (('bird', 'car', 'red'), 14)
    """
    source: Table = registry.build("data", "table", {"file": str(file), **options}, seed=seed, root=None)
    return source.load()


class Table:
    """A file of rows as a data source; `docs/your-data.md` explains every option."""

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
        representation: Kind = "auto",
        words: int | None = None,
        ngrams: int | None = None,
        characters: int | None = None,
        encoder: str | None = None,
        prompt: str | None = None,
        standardise: bool = True,
        mixed: bool = True,
        validation: float | None = None,
        test: float | None = None,
        order: Literal["items", "rows"] = "items",
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        _check("absent", absent, (None, "negative", "unknown"))
        _check("bad_items", bad_items, ("fail", "skip"))
        _check("fit", fit, ("resize", "crop"))
        for option, value in {"images": images, "text": text, "negatives": negatives, "split": split, "id": id}.items():
            if value is not None and not isinstance(value, str):
                raise UserError(f"data.{option} is {value!r}; expected the name of a column, or '' for none")
        for option, listed in {"names": names, "columns": columns}.items():
            if listed is not None and not (isinstance(listed, list) and all(isinstance(x, str) for x in listed)):
                raise UserError(f"data.{option} is {listed!r}; expected a list of names, such as [a,b]")
        self.file, self.names, self.absent, self.seed, self.root = file, names, absent, seed, root
        self.columns, self.separator, self.quotes = columns, separator, quotes
        self.validation, self.test, self.order = validation, test, order
        self.given = Given(images, text, features, labels, negatives, split, id, delimiter, mixed)
        self.preparation = Preparation(
            bad_items, folder, allow_outside, size, fit, augment,
            TextOptions(representation, words, ngrams, characters, encoder, prompt), standardise, seed, mixed,
        )  # fmt: skip

    def load(self) -> DataSet:
        source, roles = self.opened()
        contents = read_contents(source, roles, self.names)
        prepared = prepare(source, roles, contents, self.preparation)
        labels = contents.labels.store(prepared.keep, contents.ids_of(prepared.keep), self.absent)
        split = None if contents.parts is None else [contents.parts[row] for row in prepared.keep.tolist()]
        order = None
        if self.order == "items":  # the order of the file decides nothing: neither parts nor folds nor batches
            labels = labels if roles.id else replace(labels, given_keys=content_keys(prepared.content(), labels))
            order = torch.argsort(labels.item_keys(), stable=True).numpy()
        try:
            parts = divide(labels, split, self.seed, self.validation, self.test, order)
        except UserError as error:
            raise UserError(f"{source.path}: {error}") from None
        inputs = prepared.finish(parts.rows["train"])
        if isinstance(inputs, Images) and self.order == "items":
            inputs.keys = labels.item_keys()  # random changes of an image go by it too
        return DataSet(
            source.path.stem,
            *parts.items(inputs, labels),
            notes={**self._notes(source.path, roles, labels, parts), **prepared.notes},
            remarks=(
                f"{roles.labels_remark} ({counted(labels.labels, 'label')})",
                *look_alikes(labels.names),
                *roles.remarks,
                *contents.labels.remarks(self.absent),
                *prepared.remarks,
                *parts.remarks,
                *never_in_training(labels, parts),
            ),
        )

    def opened(self) -> tuple[Source, Roles]:
        """The file, and which column is what."""
        source = open_source(self._path(), columns=self.columns, separator=self.separator, quotes=self.quotes)
        return source, find_roles(source.path, source.columns, source.head(), self.given)

    def current(self) -> tuple[LabelStore, str]:
        """The labels of all rows, whatever part they belong to, and what an unmentioned label is."""
        source, roles = self.opened()
        contents = read_contents(source, roles, self.names)
        rows = np.arange(contents.items)
        return contents.labels.store(rows, contents.ids_of(rows), self.absent), self.absent or labels_default(roles)

    def rewrite(self, states: Mapping[tuple[str, str], str], out: Path) -> None:
        """The same file with the labels of some (item, label) in another state."""

        source, roles = self.opened()
        by_item: dict[str, dict[str, str]] = {}
        for (item, label), state in states.items():
            by_item.setdefault(item, {})[label] = state
        rewrite(source, Writer.of(roles, self.absent or labels_default(roles), states), by_item, out)

    def previews(self, items: set[str]) -> dict[str, dict[str, str]]:
        """What a person needs to see of some items: their text, or the path of their image."""
        source, roles = self.opened()
        column = roles.images or roles.text
        if column is None:
            return {}
        found, number = {}, 0
        for batch in source.batches([column, *([roles.id] if roles.id else [])]):
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
        del found["remarks"], found["cells"], found["labels_remark"]
        return {
            "source": path.name,
            "bytes": path.stat().st_size,
            "columns": {role: name for role, name in found.items() if name},
            "delimiter": roles.cells.delimiter if roles.labels else None,
            "mixed": self.given.mixed,
            "absent": self.absent or labels_default(roles),
            "labels_sha256": labels.fingerprint(),
            "seed": self.seed,
            **parts.notes,
        }


def labels_default(roles: Roles) -> str:
    """What a label is that the file does not mention, by default: the safe reading of this file."""
    return "negative" if roles.labels and not roles.negatives else "unknown"


def never_in_training(labels: LabelStore, parts: Parts) -> list[str]:
    """A remark on labels that cannot be learned, before training."""
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
