"""The thresholds of a finished run, chosen anew from the logits that it kept of its validation items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from raretag.core.errors import UserError
from raretag.engine.card import config_of, decisions_of, read_card, write_card
from raretag.engine.sources import load as load_data
from raretag.metrics.calibration import Goal
from raretag.metrics.tuning import tune

LOGITS = "logits.safetensors"


def retune(
    folder: Path | str,
    *,
    goal: Goal = "f1",
    wanted: float | None = None,
    threshold: float | None = None,
    calibrate: bool = True,
    validation: Any = None,
) -> dict[str, Any]:
    """Write the card with new thresholds, all of it or nothing, and return it.

    threshold   one for all labels instead of a goal
    validation  targets of the validation items; default: from the data of the run's configuration
    """
    card = read_card(folder)
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"the threshold is {threshold}; expected a probability between 0 and 1")
    config = config_of(card)
    path = Path(folder) / LOGITS
    try:
        logits = load_file(path)["validation"]
    except (OSError, SafetensorError, KeyError) as error:
        raise UserError(f"'{path}' with the logits of the validation items cannot be read: {error}") from None
    if validation is None:
        validation = load_data(config.data, config.seed).validation.labels.targets()
    if validation.value.shape != logits.shape:
        raise UserError(
            f"the data has {tuple(validation.value.shape)} validation labels and the run has logits for "
            f"{tuple(logits.shape)}: is it still the data of training?"
        )
    groups = {name: torch.tensor(members, dtype=torch.int64) for name, members in card["groups"].items()}
    tuned = tune(logits, validation, groups, goal=goal, wanted=wanted, calibrate=calibrate, seed=config.seed)
    card |= decisions_of(tuned)
    if threshold is not None:
        card |= {"thresholds": [threshold] * len(card["labels"]), "tuned": {"goal": "threshold", "wanted": threshold}}
    write_card(folder, card)
    return card
