"""One run from configuration to a folder with a model, its record and its card."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.engine import state
from raretag.engine.best import Best
from raretag.engine.build import Prepared, build_fabric, prepare
from raretag.engine.card import card_of, decisions_of, write_card
from raretag.engine.config import Config
from raretag.engine.evaluate import logits_of
from raretag.engine.fit import Step, fit, stage_of
from raretag.engine.folder import refuse_existing
from raretag.engine.log import Log
from raretag.engine.record import record_of, write_json, write_text
from raretag.labels.collection import DataSet, Items
from raretag.metrics import hidden
from raretag.metrics.calibration import calibration_error
from raretag.metrics.evaluation import evaluate
from raretag.metrics.grouped import number_or_none
from raretag.metrics.tuning import Tuned, tune

Watch = Callable[[Step, dict[str, Any] | None], None]  # each step, and the epoch's row when it ends


def run(
    config: Config,
    folder: Path | str,
    *,
    data: DataSet | None = None,
    model: nn.Module | None = None,
    resume: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = print,
    watch: Watch = lambda step, row: None,
) -> dict[str, Any]:
    """Train, evaluate, write everything into `folder`, and return the record.

    From Python `data` may be a data set of your own (raretag.data.python makes one from arrays) and `model` any module
    from inputs to logits; else they are made as the configuration says.
    """
    folder = Path(folder)
    refuse_existing(folder, resume=resume, overwrite=overwrite)
    fabric = build_fabric(config.train)
    fabric.launch()
    prepared = prepare(config, fabric, say if fabric.is_global_zero else lambda line: None, data, model)
    if fabric.is_global_zero:
        for remark in prepared.data.remarks:
            say(remark)
        warn_of_empty_classes(prepared, say)
        warn_of_no_negatives(prepared, say)
    if fabric.is_global_zero and not resume:
        start_folder(folder, prepared.config)
    fabric.barrier()

    history: list[dict[str, Any]] = []
    best = Best()
    if resume:
        checkpoint = state.load(folder, say)
        prepared.training.restore(checkpoint["training"])
        history, best = checkpoint["history"], Best(checkpoint["best"])
    learn(prepared, folder, history, best, watch)

    logits = {name: _logits(prepared, getattr(prepared.data, name)) for name in ("validation", "test")}
    record = record_of(prepared.config, prepared.data, prepared.training.method, prepared.groups, history)
    record["metrics"]["final"] = measure(prepared, prepared.data.test, logits["test"])
    tuned = tune(logits["validation"], prepared.data.validation.labels.targets(), prepared.groups, seed=config.seed)
    record["metrics"]["final"] |= measure_tuned(prepared, logits["test"], tuned)
    record |= decisions_of(tuned)
    if prepared.data.truth is not None:
        record["metrics"]["final"]["hidden_recall"] = hidden_recall(prepared)
    if fabric.is_global_zero:
        finish_folder(folder, prepared, record, logits)
    fabric.barrier()
    return record


def start_folder(folder: Path, config: Config) -> None:
    """An empty folder with the configuration."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"the run folder '{folder}' cannot be made: {error.strerror}") from None
    write_text(folder / "config.yaml", config.to_yaml())


def learn(prepared: Prepared, folder: Path, history: list[dict[str, Any]], best: Best, watch: Watch) -> None:
    training, first = prepared.training, prepared.training.fabric.is_global_zero
    settings = training.settings
    log = Log(folder, history) if first else None
    if first and not training.progress.step:  # so that a run that dies in its first epoch can be resumed
        state.save(folder, {"training": training.state(), "history": history, "best": best.weights})
    started = time.perf_counter()
    last_stage = stage_of(training.method, settings, settings.epochs - 1)[1][0]  # patience counts within it
    for step in fit(training) if not best.is_over(history[last_stage:], settings.patience) else ():
        row = None
        if step.ends_epoch:
            row = epoch_row(prepared, step)
            history.append(row)
            best.consider(history[last_stage:], training.best, settings.patience)
            if log:
                log.epoch(row, time.perf_counter() - started)
            started = time.perf_counter()
        if first and (step.ends_epoch or (settings.save_every and step.step % settings.save_every == 0)):
            state.save(folder, {"training": training.state(), "history": history, "best": best.weights})
        if first:
            watch(step, row)
        if step.ends_epoch and best.is_over(history[last_stage:], settings.patience):
            break
    if log:
        log.close()
    best.give_back(training.best)


def epoch_row(prepared: Prepared, step: Step) -> dict[str, Any]:
    validation = prepared.data.validation
    numbers = measure(prepared, validation, _logits(prepared, validation))
    return {
        "epoch": step.epoch,
        "step": step.step,
        "loss": step.mean_loss,
        "learning_rate": step.learning_rate,
        "validation": {name: numbers[name] for name in ("mAP", "F1")},
        "vital_signs": prepared.training.method.vital_signs(),
    }


def measure(prepared: Prepared, items: Items, logits: Tensor, thresholds: float | Tensor = 0.5) -> dict[str, Any]:
    return evaluate(
        logits,
        items.labels.targets(),
        thresholds=thresholds,
        groups=prepared.groups,
        training_positives=prepared.statistics.positives,
        least_frequent=prepared.config.least_frequent,
    )


def measure_tuned(prepared: Prepared, logits: Tensor, tuned: Tuned) -> dict[str, Any]:
    """What thresholds and calibration do to the numbers of the test set."""
    test, after = prepared.data.test, tuned.calibrated(logits)
    targets = test.labels.targets()
    errors = {"before": logits, "after": after}
    return {
        "F1_tuned": measure(prepared, test, after, tuned.thresholds)["F1"],
        "ECE": {when: number_or_none(calibration_error(values.sigmoid(), targets)) for when, values in errors.items()},
    }


def hidden_recall(prepared: Prepared) -> float | None:
    """The share of the hidden training positives that the model finds at 0.5 (what COMIC's Table 2 calls recall)."""
    items, truth = prepared.data.train, prepared.data.truth
    assert truth is not None
    counts = hidden.HiddenCounts.of(_logits(prepared, items) > 0, truth.targets(), items.labels.targets())
    return number_or_none(hidden.micro_hidden_recall(counts))


def finish_folder(folder: Path, prepared: Prepared, record: dict[str, Any], logits: dict[str, Tensor]) -> None:
    weights = {name: tensor.contiguous() for name, tensor in prepared.training.best.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    save_file(logits, folder / "logits.safetensors")
    decisions = {name: record[name] for name in ("thresholds", "calibration", "tuned")}
    card = card_of(
        prepared.config,
        prepared.data.train.labels.names,
        prepared.statistics,
        prepared.groups,
        prepared.raw,
        decisions,
        folder / "model.safetensors",
    )
    write_card(folder, card)
    write_json(folder / "record.json", record)


def warn_of_no_negatives(prepared: Prepared, say: Callable[[str], None]) -> None:
    """Where only positives are observed and unknown labels have no term, "everything is there" is the best answer."""
    targets = prepared.data.train.labels.targets(slice(0, 64))
    logits = torch.zeros(targets.value.shape)
    index = torch.arange(len(targets))
    completed = prepared.training.method.objective.complete.cpu()(logits, targets, Context(index=index))
    prepared.training.method.to(prepared.training.fabric.device)
    ignores = not (completed.counted & ~completed.observed).any()
    if ignores and not prepared.statistics.negatives.any():
        say(
            f"warning: no training label is an observed negative and {prepared.config.method.name} ignores unknown "
            "labels, so it learns to find every label everywhere; try assume_negative or ignore_likely"
        )


def warn_of_empty_classes(prepared: Prepared, say: Callable[[str], None]) -> None:
    names = prepared.data.train.labels.names
    empty = [names[label] for label in (prepared.statistics.positives == 0).nonzero().flatten().tolist()]
    if empty:
        shown = ", ".join(empty[:10]) + (f" and {len(empty) - 10} more" if len(empty) > 10 else "")
        say(f"warning: no training item has {shown}; such a label cannot be learnt")


def _logits(prepared: Prepared, items: Items) -> Tensor:
    training = prepared.training
    return logits_of(
        training.best,
        training.method,
        items,
        batch_size=4 * training.settings.batch_size,
        rank=training.fabric.global_rank,
        workers=training.settings.workers,
        place=training.place,
    )
