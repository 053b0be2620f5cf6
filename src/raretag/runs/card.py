"""The card of a model: what its user must know, beside the weights and checked against them.

A card is sealed with a hash of its content and names the hash of the weights, so that a card that was edited, cut off
or copied beside other weights is noticed. That guards against accidents; whoever forges a card can seal it anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from raretag.config.settings import Config, with_texts_of_old_runs
from raretag.core.errors import UserError
from raretag.core.files import json_text, without_nan
from raretag.core.protocols import Describes
from raretag.runs import manifest
from raretag.runs.manifest import sha256

if TYPE_CHECKING:
    from raretag.data.dataset import DataSet
    from raretag.metrics.calibration import Tuned

FORMAT = "raretag model card 2"
RANKED = "raretag ranked model card 1"  # of a model for very many labels, see ranked_card.py
FILE, WEIGHTS = "card.json", "model.safetensors"
INPUT_ROLES = ("images", "text", "features", "categories", "id")  # columns of a table that a model's user needs too


@dataclass(frozen=True)
class RawInputs:
    """What the data set gave, before any encoder."""

    description: dict[str, Any]  # how a raw item becomes a tensor; empty: items are tensors already
    shape: tuple[int, ...]
    columns: dict[str, Any]  # of a table: which column is what
    encoder: dict[str, str] | None = None  # of a frozen encoder: hash of its weights, its name and licence
    data: DataSet | None = None  # itself

    @property
    def has_encoder(self) -> bool:
        """Whether items are texts that are compared by what they mean, not by their words alone."""
        return self.description.get("kind") == "encoder" or "encoder" in self.description.get("parts", {})

    @classmethod
    def of(cls, data: DataSet) -> RawInputs:
        inputs = data.train.inputs
        columns = {role: name for role, name in data.notes.get("columns", {}).items() if role in INPUT_ROLES}
        description = inputs.describe() if isinstance(inputs, Describes) else {}
        return cls(description, data.input_shape, columns, data=data)

    @cached_property
    def content(self) -> dict[str, str | None]:
        """What the data holds, in short; every item is looked at once."""
        from raretag.data.fingerprint import fingerprint  # predicting does not need it

        return {} if self.data is None else fingerprint(self.data)


class Calibration(BaseModel):
    """probability = sigmoid(scale x logit + shift), for each label."""

    scale: list[float]
    shift: list[float]


class Decisions(BaseModel):
    """Thresholds, calibration, and how they were found."""

    thresholds: list[float]  # of calibrated probabilities, one for each label
    calibration: Calibration
    tuned: dict[str, Any]

    @classmethod
    def of(cls, tuned: Tuned) -> Decisions:
        calibration = Calibration(scale=tuned.scale.tolist(), shift=tuned.shift.tolist())
        return cls(thresholds=tuned.thresholds.tolist(), calibration=calibration, tuned=tuned.notes)


class About(BaseModel):
    """What every card holds: how items become inputs, the file of the weights, the configuration."""

    model_config = ConfigDict(extra="allow")

    format: str
    training_items: int
    group_edges: list[int] = Field(default_factory=list)
    inputs: dict[str, Any] = Field(default_factory=dict)  # see RawInputs.description
    columns: dict[str, Any] = Field(default_factory=dict)
    input_shape: list[int]
    encoder: dict[str, str] | None = None
    weights: dict[str, str]
    config: dict[str, Any]

    @property
    def settings(self) -> Config:
        """The configuration that the model was trained with."""
        return Config.model_validate(with_texts_of_old_runs(self.config))

    def write(self, folder: Path | str) -> None:
        """Sealed; complete or not at all."""
        content = without_nan(self.model_dump(mode="json", exclude={"seal"}))
        with manifest.rewriting(Path(folder) / FILE) as new:
            new.write_text(json_text({**content, "seal": seal_of(content)}), encoding="utf-8")


class Card(Decisions, About):
    format: str = FORMAT
    labels: list[str]
    training_positives: list[int]
    training_negatives: list[int]
    groups: dict[str, list[int]] = Field(default_factory=dict)
    outside: dict[str, Any] | None = None  # how scores from outside are added to the logits (metrics/outside.py)


def read_card(folder: Path | str) -> Card:
    """The card of a run, refused with the reason if anything in it does not fit."""
    path, card = read_sealed(folder, FORMAT)
    trouble = _trouble(card)
    if trouble:
        raise UserError(f"the card '{path}' contradicts itself: {trouble}")
    try:
        return Card.model_validate(card)
    except ValidationError as error:
        raise UserError(f"the card '{path}' contradicts itself: {' '.join(str(error).split())[:200]}") from None


def format_of(folder: str | os.PathLike[str]) -> str | None:
    """Of the card in a folder, where there is one."""
    try:
        with (Path(folder) / FILE).open(encoding="utf-8") as file:
            found = re.search(r'"format": "([^"]*)"', file.read())
    except OSError:
        return None
    return found[1] if found else None


def read_sealed(folder: Path | str, form: str) -> tuple[Path, dict[str, Any]]:
    """The content of a card of this format, whose seal fits; and where it is."""
    path = Path(folder) / FILE
    if not path.is_file():
        if (path.parent / "config.yaml").is_file():
            raise UserError(f"'{folder}' is not finished (no {FILE} in it); `raretag train --resume {folder}` goes on")
        raise UserError(f"'{folder}' is not a run folder (no {FILE} in it); `raretag train --out {folder}` makes one")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"the card '{path}' is damaged: not JSON ({error})") from None
    found = card.get("format") if isinstance(card, dict) else None
    if found != form:
        told = repr(found)[:60]
        raise UserError(f"the card '{path}' is of format {told}; expected {form!r}: train again with this version")
    if card.get("seal") != seal_of(card):
        raise UserError(
            f"the card '{path}' was changed after it was written (its seal does not fit); "
            "`raretag tune` changes thresholds, `raretag train` makes a new card"
        )
    return path, card


def check_weights(folder: Path | str, card: About) -> Path:
    """The file of weights, if it is the one that the card was written for."""
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise UserError(f"'{folder}' has no {WEIGHTS}: the card is there, but not the model")
    if sha256(path) != card.weights.get("sha256"):
        raise UserError(
            f"'{path}' is not the file that its card was written for (its hash differs): "
            "does it belong to another model?"
        )
    return path


def seal_of(card: dict[str, Any]) -> str:
    content = {key: value for key, value in card.items() if key != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _trouble(card: dict[str, Any]) -> str | None:
    """What a card of our own making cannot have; a sealed one may still come from elsewhere."""
    labels = card.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(name, str) for name in labels):
        return "labels must be a list of names"
    if len(set(labels)) < len(labels):
        return "a label is named twice"
    calibration = card.get("calibration")
    calibration = calibration if isinstance(calibration, dict) else {}
    for name, values in (
        ("thresholds", card.get("thresholds")),
        ("training_positives", card.get("training_positives")),
        ("training_negatives", card.get("training_negatives")),
        ("calibration.scale", calibration.get("scale")),
        ("calibration.shift", calibration.get("shift")),
    ):
        if not isinstance(values, list) or len(values) != len(labels):
            return f"{len(labels)} labels, but {name} has {len(values) if isinstance(values, list) else 'no'} numbers"
        if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in values):
            return f"{name} holds something that is not a number"
    if not all(0 <= value <= 1 for value in card["thresholds"]):
        return "a threshold is not between 0 and 1"
    if not all(value > 0 for value in calibration["scale"]):
        return "a calibration.scale is not above 0"
    outside = card.get("outside")
    if outside is not None and not _fits(outside, len(labels)):
        return "outside has not one spread, centre, intercept, slope and share for each label"
    return trouble_about(card)


def _fits(outside: Any, labels: int) -> bool:
    if not isinstance(outside, dict):
        return False
    lists: list[Any] = [outside.get(name) for name in ("centre", "intercept", "slope", "share", "spread")]
    if not all(isinstance(some, list) and len(some) == labels for some in lists):
        return False
    numbers = [one for some in lists[:4] for one in some]
    numbers += [one for one in lists[4] if one is not None]  # a score that never changes has no spread
    return all(isinstance(one, (int, float)) and math.isfinite(one) for one in numbers)


def trouble_about(card: dict[str, Any]) -> str | None:
    """The same for what every card holds."""
    if not isinstance(card.get("weights"), dict) or not isinstance(card.get("config"), dict):
        return "weights or config are missing"
    try:
        Config.model_validate(card["config"])
    except ValueError as error:
        return f"its configuration is not one: {' '.join(str(error).split())[:200]}"
    if not isinstance(card.get("training_items"), int):
        return "training_items must be a whole number"
    shape = card.get("input_shape")
    if not isinstance(shape, list) or not all(isinstance(side, int) and side > 0 for side in shape):
        return "input_shape must be a list of whole numbers"
    return None
