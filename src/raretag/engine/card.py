"""The card of a model: what its user must know, beside the weights and checked against them.

A card is sealed with a hash of its content and names the hash of the weights, so that a card that was edited, cut off
or copied beside other weights is noticed. That guards against accidents; whoever forges a card can seal it anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import LabelStatistics
from raretag.engine.config import Config
from raretag.engine.record import without_nan, write_json
from raretag.metrics.tuning import Tuned

FORMAT = "raretag model card 2"
FILE, WEIGHTS = "card.json", "model.safetensors"


@dataclass(frozen=True)
class RawInputs:
    """What the data set gave, before any encoder."""

    description: dict[str, Any]  # how a raw item becomes a tensor; empty: items are tensors already
    shape: tuple[int, ...]
    columns: dict[str, Any]  # of a table: which column is what
    encoder: str | None  # hash of a frozen encoder's weights


def card_of(
    config: Config,
    labels: Sequence[str],
    statistics: LabelStatistics,
    groups: Mapping[str, Tensor],
    raw: RawInputs,
    decisions: Mapping[str, Any],
    weights: Path,
) -> dict[str, Any]:
    """`decisions` are thresholds, calibration and how they were found."""
    return {
        "format": FORMAT,
        "labels": list(labels),
        "training_positives": statistics.positives.tolist(),
        "training_negatives": statistics.negatives.tolist(),
        "training_items": statistics.items,
        "group_edges": list(config.group_edges),
        "groups": {name: members.tolist() for name, members in groups.items()},
        **decisions,
        "inputs": raw.description,
        "columns": raw.columns,
        "input_shape": list(raw.shape),
        "encoder": None if raw.encoder is None else {"sha256": raw.encoder},
        "weights": {"file": WEIGHTS, "sha256": sha256(weights)},
        "config": config.model_dump(mode="json"),
    }


def decisions_of(tuned: Tuned) -> dict[str, Any]:
    """Thresholds, calibration and how they were found, for JSON."""
    return {
        "thresholds": tuned.thresholds.tolist(),  # of calibrated probabilities, one for each label
        "calibration": {"scale": tuned.scale.tolist(), "shift": tuned.shift.tolist()},
        "tuned": tuned.notes,
    }


def read_card(folder: Path | str) -> dict[str, Any]:
    """The card of a run, refused with the reason if anything in it does not fit."""
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
    if found != FORMAT:
        raise UserError(f"the card '{path}' is of format {found!r}; expected {FORMAT!r}: train again with this version")
    if card.get("seal") != seal_of(card):
        raise UserError(
            f"the card '{path}' was changed after it was written (its seal does not fit); "
            "`raretag tune` changes thresholds, `raretag train` makes a new card"
        )
    trouble = _trouble(card)
    if trouble:
        raise UserError(f"the card '{path}' does not fit itself: {trouble}")
    return card


def check_weights(folder: Path | str, card: dict[str, Any]) -> Path:
    """The file of weights, if it is the one that the card was written for."""
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise UserError(f"'{folder}' has no {WEIGHTS}: the card is there, but not the model")
    if sha256(path) != card["weights"]["sha256"]:
        raise UserError(f"'{path}' is not the file that its card was written for (its hash differs): another model's?")
    return path


def write_card(folder: Path | str, card: dict[str, Any]) -> None:
    """Sealed; complete or not at all."""
    card = without_nan({key: value for key, value in card.items() if key != "seal"})
    write_json(Path(folder) / FILE, {**card, "seal": seal_of(card)})


def seal_of(card: dict[str, Any]) -> str:
    content = {key: value for key, value in card.items() if key != "seal"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def config_of(card: dict[str, Any]) -> Config:
    return Config.model_validate(card["config"])


def _trouble(card: dict[str, Any]) -> str | None:
    """What a card of our own making cannot have; a sealed one may still come from elsewhere."""
    labels = card.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(name, str) for name in labels):
        return "labels must be a list of names"
    if len(set(labels)) < len(labels):
        return "a label is named twice"
    calibration = card.get("calibration") or {}
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
    if not isinstance(card.get("weights"), dict) or not isinstance(card.get("config"), dict):
        return "weights or config are missing"
    try:
        config_of(card)
    except ValueError as error:
        return f"its configuration is not one: {' '.join(str(error).split())[:200]}"
    shape = card.get("input_shape")
    if not isinstance(shape, list) or not all(isinstance(side, int) and side > 0 for side in shape):
        return "input_shape must be a list of whole numbers"
    return None
