"""Training, validation and test rows: as the file says, or dealt so that rare labels are in every part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.labels.split import split
from raretag.labels.store import LabelStore

PARTS = ("train", "validation", "test")
FRACTIONS = {"train": 0.7, "validation": 0.1, "test": 0.2}
PART_OF = {
    **dict.fromkeys(("train", "training", "tr", "fit", "learn"), "train"),
    **dict.fromkeys(("validation", "val", "valid", "dev", "development"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation", "holdout"), "test"),
}


@dataclass
class Parts:
    rows: dict[str, NDArray[np.int64]]  # of each of PARTS
    remarks: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    def in_order(self) -> list[NDArray[np.int64]]:
        return [self.rows[part] for part in PARTS]


def part_of(words: Sequence[str], place: Callable[[int], str]) -> list[str]:
    """The part that each row belongs to; `place` says where a row with a strange word stands."""
    known = {word: PART_OF.get(word.strip().lower()) for word in set(words)}
    if None in known.values():
        row = next(row for row, word in enumerate(words) if known[word] is None)
        raise UserError(
            f"{place(row)}: the split {words[row]!r} is not known; expected train, validation (val, dev) or test; "
            "if this column is no split, say data.split=''"
        )
    return [str(known[word]) for word in words]


def divide(labels: LabelStore, given: Sequence[str] | None, seed: int) -> Parts:
    """Parts that the file names are kept; those it lacks are dealt from the training rows."""
    if given is None:
        found = {"train": np.arange(len(labels))}
    else:
        named = np.asarray(given)
        found = {part: np.flatnonzero(named == part) for part in PARTS if (named == part).any()}
        if "train" not in found:
            raise UserError(
                f"no row belongs to the training part, only to {', '.join(found)}; expected 'train' somewhere"
            )
    missing = [part for part in PARTS if part not in found]
    parts = Parts(found, notes={"split": "made" if given is None else "given", "made": missing})
    if missing:
        _deal(labels, parts, missing, seed)
    sizes = ", ".join(f"{len(parts.rows[part]):,} {part}" for part in PARTS)
    how = "as the file says" if not missing else f"made here, stratified: {', '.join(missing)}"
    parts.remarks.insert(0, f"parts: {sizes} ({how})")
    return parts


def _deal(labels: LabelStore, parts: Parts, missing: list[str], seed: int) -> None:
    pool = parts.rows["train"]
    wanted = ["train", *(part for part in missing if part != "train")]
    shares = np.array([FRACTIONS[part] for part in wanted])
    dealt = split(labels.take(pool), (shares / shares.sum()).tolist(), seed=seed)
    for part, rows in zip(wanted, dealt.parts, strict=True):
        if len(rows) == 0:
            raise UserError(f"{len(pool)} items are too few to make the parts {', '.join(wanted)}; expected 10 or more")
        parts.rows[part] = pool[rows]
    if dealt.impossible:
        rare = [labels.names[label] for label in dealt.impossible]
        parts.remarks.append(
            f"{len(rare)} labels have too few items to be in every part, such as '{rare[0]}' "
            f"({next(iter(dealt.impossible.values()))} items)"
        )
