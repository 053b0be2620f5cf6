"""ARFF files as a data set: those of MULAN by name, and those of a user."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from raretag.data.building.feature_rows import FeatureRows, Part, part
from raretag.data.building.place import Place
from raretag.data.reading import arff, arff_header
from raretag.labels.store import LabelStore


def arff_part(called: str, path: Path, labels: Path | None) -> Part:
    """A file; `labels` is MULAN's list of labels, None if the file itself says which attributes are labels."""
    names = None if labels is None else arff_header.label_names(labels)
    table = arff.table(path, names)
    known = part(called, table.features, table.positives, table.label_names)
    if not any(table.unknown):
        return known
    values = known.labels.dense()
    for row, unknown in enumerate(table.unknown):
        values[row, unknown] = float("nan")
    return Part(table.features, LabelStore.from_dense(values, names=table.label_names, ids=known.labels.given_ids))


class MulanSet(FeatureRows):
    """A set with an official split. `files` are its training file, test file and list of labels."""

    files: ClassVar[tuple[str, str, str]]

    def __init__(self, about: str | None, validation: float, seed: int, root: Path | None) -> None:
        self.place = Place(self.name, about, root)
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        train, test, labels = map(self.place.file, self.files)
        return {"train": arff_part("train", train, labels), "test": arff_part("test", test, labels)}
