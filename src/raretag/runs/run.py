"""A finished run, opened again. What its folder lacks comes from the data set, if that is there and still the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from raretag.config.settings import checked, read
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet
from raretag.data.fingerprint import changed, fingerprint
from raretag.data.sources import load
from raretag.runs import evidence, manifest
from raretag.runs.card import Card
from raretag.runs.ranked_card import RankedCard
from raretag.runs.record import FILE, Record, read_record

Known = dict[str, DataSet | str]  # data sets by their settings, so that runs on the same one read it once; or why not


@dataclass(frozen=True)
class Run:
    """A finished run: its record, and what explains it as far as it could be found."""

    folder: Path | None  # None: the run was never written
    record: Record
    epochs: list[dict[str, Any]]
    logits: dict[str, Tensor]  # of "validation" and "test", or empty
    evidence: dict[str, Tensor]
    data: DataSet | None = None
    missing: list[str] = field(default_factory=list)  # what could not be had, in sentences
    card: Card | RankedCard | None = None
    model: Any = None  # trained, where it is still in memory: a module, or a `models.ranked.RankedModel`

    def targets(self, split: str) -> Targets | None:
        """The labels of a split: as the run kept them, else as the data set has them."""
        kept = evidence.unpacked(split, self.evidence)
        if kept is None and self.data is not None:
            kept = self.data.parts[split].labels.targets()
        return kept

    def tested_as(self, other: Run) -> bool:
        """Whether both were tested on the same items: then each item of one is an item of the other."""
        mine, theirs = self.record.data, other.record.data
        same = mine.fingerprint["test"] == theirs.fingerprint["test"]
        # Without ids other items may have the same labels, as those of another seed have.
        return same and (mine.ids or (mine.name, _made(mine.notes)) == (theirs.name, _made(theirs.notes)))


def _made(notes: dict[str, Any]) -> dict[str, Any]:
    """How a data set was made; corrections of labels do not change which items are in which part."""
    return {key: value for key, value in notes.items() if key not in ("corrections", "label_texts", "prior")}


def open_run(folder: Path, *, known: Known | None = None, with_data: bool = True) -> Run:
    if not (folder / FILE).is_file():
        started = (folder / "config.yaml").is_file()
        reason = "its training did not finish: `raretag train --resume` continues it" if started else f"no {FILE} in it"
        raise UserError(f"'{folder}' is not the folder of a finished run ({reason})")
    record = read_record(folder)
    wrong = manifest.edited(folder)
    missing = [manifest.sentence(name) for name in wrong]
    logits = {} if evidence.LOGITS in wrong else _tensors(folder / evidence.LOGITS, missing, "no single predictions")
    kept = {}
    if (folder / evidence.FILE).is_file() and evidence.FILE not in wrong:
        kept = _tensors(folder / evidence.FILE, missing, "")
    data: DataSet | None = None
    if with_data:
        found = _data(folder, record, {} if known is None else known)
        data = None if isinstance(found, str) else found
        if isinstance(found, str):
            missing.append(f"{found}, so items are shown without pictures and texts")
    if logits and "test_positive" not in kept and data is None:
        missing.append("the folder does not hold the test labels, so single predictions cannot be checked")
    return Run(folder, record, _epochs(folder, record), logits, kept, data, missing)


def _data(folder: Path, record: Record, known: Known) -> DataSet | str:
    """The data set that the run was trained on, or why it cannot be had."""
    try:
        config = checked(read(folder / "config.yaml"))
        key = f"{config.data.model_dump_json()} {config.seed}"
        if key not in known:
            known[key] = load(config.data, config.seed)
    except UserError as error:
        return f"the data was not found ({error})"
    found = known[key]
    if isinstance(found, DataSet) and is_other(found, folder, record):
        return "the data is not what the run was trained on: it has changed, or it was made in Python"
    return found


def is_other(data: DataSet, folder: Path, record: Record) -> bool:
    """Than what the run was trained on; of older runs only the labels are known."""
    before = manifest.data_of(folder)
    if before:
        return bool(changed(before, fingerprint(data)))
    return any(data.parts[name].labels.fingerprint() != record.data.fingerprint.get(name) for name in ("train", "test"))


def _tensors(path: Path, missing: list[str], without: str) -> dict[str, Tensor]:
    if not path.is_file():
        missing.append(f"{path.name} is not in the folder: {without}")
        return {}
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        missing.append(f"{path.name} is damaged ({error})")
        return {}


def _epochs(folder: Path, record: Record) -> list[dict[str, Any]]:
    """With numbers of single labels, if they were kept."""
    rows = [row.model_dump(exclude_unset=True) for row in record.metrics.epochs]
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return rows
    try:
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (ValueError, OSError):  # torn by a crash; the record has the same without single labels
        return rows
    return found if len(found) == len(rows) else rows
