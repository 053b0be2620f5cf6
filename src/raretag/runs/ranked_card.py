"""The card of a model for very many labels: one cut for all of them, and what differs by label in a file beside it.

`labels.safetensors` holds the training positives and negatives of each label, and the names unless they are "0", "1",
and so on. A million labels would make a card of 100 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.labels.storage import Texts
from raretag.labels.store import LabelStore
from raretag.runs.card import RANKED, About, format_of, read_sealed, trouble_about
from raretag.runs.manifest import sha256

LABELS = "labels.safetensors"


class Decision(BaseModel):
    """probability = sigmoid(scale s + rarity ln(1 + training positives) + shift); chosen if above the threshold."""

    scale: float = Field(gt=0)
    rarity: float
    shift: float
    threshold: float = Field(ge=0, le=1)


class RankedCard(About):
    format: str = RANKED
    labels: int  # how many
    label_file: dict[str, str]
    decision: Decision
    tuned: dict[str, Any] = Field(default_factory=dict)  # how the threshold was found


@dataclass(frozen=True)
class LabelTable:
    """What is known of each label."""

    names: Sequence[str]  # C
    positives: Tensor  # [C] int64, of training
    negatives: Tensor  # [C]

    @classmethod
    def of(cls, labels: LabelStore) -> LabelTable:
        counts = labels.statistics(cooccurrence=False)
        return cls(labels.names, counts.positives, counts.negatives)

    def write(self, folder: Path) -> str:
        """Returns the hash of the file."""
        tensors = {"positives": self.positives, "negatives": self.negatives}
        if any(name != str(number) for number, name in enumerate(self.names)):
            texts = Texts.of(self.names)
            tensors |= {"name_ends": torch.from_numpy(texts.ends), "name_utf8": torch.from_numpy(texts.utf8.copy())}
        with replacing(folder / LABELS) as new:
            save_file(tensors, new)
        return sha256(folder / LABELS)


def is_ranked(folder: Path | str) -> bool:
    """Whether the folder holds a model for very many labels."""
    return format_of(folder) == RANKED


def read_ranked_card(folder: Path | str) -> RankedCard:
    """The card, refused with the reason if anything in it does not fit."""
    path, content = read_sealed(folder, RANKED)
    trouble = trouble_about(content)
    try:
        card = RankedCard.model_validate(content)
    except ValidationError as error:
        trouble = trouble or " ".join(str(error).split())[:200]
    if trouble:
        raise UserError(f"the card '{path}' contradicts itself: {trouble}")
    return card


def read_labels(folder: Path | str, card: RankedCard) -> LabelTable:
    """The labels of a card, if the file is the one that it was written for."""
    path = Path(folder) / LABELS
    if not path.is_file():
        raise UserError(f"'{folder}' has no {LABELS}: the card is there, but not what it says of the labels")
    if sha256(path) != card.label_file.get("sha256"):
        raise UserError(
            f"'{path}' is not the file that its card was written for (its hash differs): "
            "does it belong to another model?"
        )
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise UserError(f"'{path}' is damaged: {error}") from None
    names: Sequence[str] = Digits(card.labels)
    if "name_ends" in found:
        names = Texts(found["name_ends"].numpy(), found["name_utf8"].numpy())
    if not len(names) == len(found["positives"]) == len(found["negatives"]) == card.labels:
        raise UserError(f"'{path}' is of {len(found['positives'])} labels, and its card of {card.labels}")
    return LabelTable(names, found["positives"], found["negatives"])


class Digits(Sequence[str]):
    """ "0", "1", ...: the names of labels that have none."""

    def __init__(self, labels: int) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return self.labels

    def __getitem__(self, place: Any) -> Any:
        found = range(self.labels)[place]
        return [str(one) for one in found] if isinstance(place, slice) else str(found)


def named(names: Sequence[str], labels: Any) -> list[list[str]]:
    """Rows of label numbers [N, k] as rows of names, without those below 0."""
    known = {int(label): names[int(label)] for label in np.unique(labels) if label >= 0}
    return [[known[label] for label in row if label >= 0] for row in np.asarray(labels).tolist()]
