"""New thresholds for a finished run, chosen from the logits that it kept of its validation items."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from raretag.core.errors import UserError
from raretag.data.fingerprint import fingerprint, refuse_changed
from raretag.data.sources import load as load_data
from raretag.metrics.calibration import Goal
from raretag.metrics.cut import Sample, fit_cut
from raretag.metrics.decision_cuts import MARKED, tune_out_of_fold
from raretag.metrics.marked_shares import marked_shares
from raretag.metrics.tuning import tune
from raretag.runs import evidence, manifest
from raretag.runs.card import Card, Decisions, read_card
from raretag.runs.ranked_card import Decision, RankedCard, is_ranked, read_ranked_card


def retune(
    folder: Path | str,
    *,
    goal: Goal = "f1",
    wanted: float | None = None,
    threshold: float | None = None,
    calibrate: bool = True,
    validation: Any = None,
    data_changed: bool = False,
) -> Card | RankedCard:
    """Write the card with new thresholds, all of it or nothing, and return it.

    A run with very many labels has one threshold, and its goal is the precision or recall of all decisions together.

    Args:
        folder: A run folder with the logits of its validation items.
        goal: "f1", "precision" or "recall", of each label.
        wanted: The precision or recall to reach.
        threshold: One threshold for all labels, instead of a goal.
        calibrate: Also calibrate probabilities.
        validation: Targets of the validation items. Default: those that the run kept, else from its data.
        data_changed: Take the labels of that data also if it is not what it was in training.
    """
    if is_ranked(folder):
        return retune_ranked(Path(folder), goal, wanted, threshold)
    card = read_card(folder)
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"the threshold is {threshold}; expected a probability between 0 and 1")
    config = card.settings
    logits = evidence.read_logits(Path(folder)).get("validation")
    if logits is None:
        raise UserError(f"'{folder}' has no logits of validation items to choose thresholds from")
    if validation is None:
        validation = evidence.unpacked("validation", evidence.read(Path(folder)))  # as the run kept them
    if validation is None:
        data = load_data(config.data, config.seed)
        if not data_changed:
            refuse_changed(manifest.data_of(folder), fingerprint(data), folder)
        validation = data.validation.labels.targets()
    if validation.value.shape != logits.shape:
        raise UserError(
            f"the data has {tuple(validation.value.shape)} validation labels and the run has logits for "
            f"{tuple(logits.shape)}: is it still the training data?"
        )
    groups = {name: torch.tensor(members, dtype=torch.int64) for name, members in card.groups.items()}
    if config.data.all_teach and goal == "f1" and calibrate:
        found = None
        if config.data.marking != "assumed":
            found = marked_shares(logits, validation, by_label=config.data.marking == "by_label")
        marked = MARKED if found is None else torch.from_numpy(found.shares())
        tuned = tune_out_of_fold(logits, validation, groups, seed=config.seed, marked=marked).tuned
    else:
        tuned = tune(logits, validation, groups, goal=goal, wanted=wanted, calibrate=calibrate, seed=config.seed)
    decisions = Decisions.of(tuned).model_dump()
    if threshold is not None:
        decisions["thresholds"] = [threshold] * len(card.labels)
        decisions["tuned"] = {"goal": "threshold", "wanted": threshold}
    Card.model_validate({**card.model_dump(), **decisions}).write(folder)
    return read_card(folder)


def retune_ranked(folder: Path, goal: Goal, wanted: float | None, threshold: float | None) -> RankedCard:
    """The same for a run with very many labels, from the ranked labels that it kept of its held-out items."""
    card = read_ranked_card(folder)
    if threshold is not None and not 0 <= threshold <= 1:
        raise UserError(f"the threshold is {threshold}; expected a probability between 0 and 1")
    kept = evidence.read(folder)
    if "held_scores" not in kept:
        raise UserError(f"'{folder / evidence.FILE}' with the held-out items is missing or not of this run")
    parts = (kept[f"held_{name}"].numpy() for name in ("scores", "positives", "state", "truth"))
    cut = fit_cut(Sample(*parts), goal, wanted, threshold)
    tuned = {
        "goal": "threshold" if threshold is not None else goal,
        "wanted": wanted if threshold is None else threshold,
    }
    card.model_copy(update={"decision": Decision(**asdict(cut)), "tuned": tuned}).write(folder)
    return read_ranked_card(folder)
