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
from raretag.core.errors import UserError, some
from raretag.engine import evidence, state
from raretag.engine.best import Best
from raretag.engine.build import Prepared, build_fabric, prepare
from raretag.engine.card import card_of, decisions_of, write_card
from raretag.engine.config import Config, Train
from raretag.engine.evaluate import logits_of
from raretag.engine.fit import fit, stage_of
from raretag.engine.folder import refuse_existing
from raretag.engine.log import Log
from raretag.engine.progress import Step
from raretag.engine.record import record_of, write_json, write_text
from raretag.labels.collection import DataSet, Items
from raretag.metrics.calibration import calibration_error
from raretag.metrics.evaluation import evaluate, grouped_means
from raretag.metrics.partial_labels import HiddenCounts, micro_hidden_recall, partial_truth
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import number_or_none
from raretag.metrics.tuning import Tuned, tune

MOST_LABELS = 1000  # whose inner numbers are written down each epoch
SAVING_PAUSE = 10.0  # seconds between checkpoints
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
    solving: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Train, evaluate, write everything into `folder`, and return the record.

    From Python `data` may be a data set of your own (raretag.data.python makes one from arrays) and `model` any module
    from inputs to logits; else they are made as the configuration says. `watch` sees every step; a method without steps
    tells `solving` how far it is, 0 to 1.
    """
    folder = Path(folder)
    refuse_existing(folder, resume=resume, overwrite=overwrite)
    fabric = build_fabric(config.train)
    fabric.launch()
    prepared = prepare(config, fabric, say if fabric.is_global_zero else lambda line: None, data, model)
    if fabric.is_global_zero:
        prepared.training.method.tell = solving
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

    logits = {name: predicted(prepared, getattr(prepared.data, name)) for name in ("validation", "test")}
    record = record_of(prepared.config, prepared.data, prepared.training.method, prepared.groups, history)
    record["metrics"]["final"] = measure(prepared, prepared.data.test, logits["test"])
    tuned = tune(logits["validation"], prepared.data.validation.labels.targets(), prepared.groups, seed=config.seed)
    record["metrics"]["final"] |= measure_tuned(prepared, logits["test"], tuned)
    record |= decisions_of(tuned)
    if prepared.data.truth is not None:
        record["metrics"]["final"]["hidden_recall"] = hidden_recall(prepared)
    rows = evidence.rows_to_search(prepared.data.train.labels)
    searched = predicted(prepared, prepared.data.train.take(rows))
    unsure = prepared.data.test.labels.targets()
    if not unsure.observed.all():
        settings = prepared.config
        found = partial_truth(logits["test"], unsure, kept=settings.data.kept_in_test, seed=settings.seed)
        record["metrics"]["final"]["partial_truth"] = found
        if fabric.is_global_zero:
            say(said_of_partial_truth(found))
    if fabric.is_global_zero:
        finish_folder(folder, prepared, record, logits)
        evidence.write(folder, evidence.evidence_of(prepared.data, prepared.statistics, rows, searched))
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
    started = saved = time.perf_counter()
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
        if first and is_time_to_save(step, settings, time.perf_counter() - saved):
            state.save(folder, {"training": training.state(), "history": history, "best": best.weights})
            saved = time.perf_counter()
        if first:
            watch(step, row)
        if step.ends_epoch and best.is_over(history[last_stage:], settings.patience):
            break
    if log:
        log.close()
    best.give_back(training.best)


def is_time_to_save(step: Step, settings: Train, seconds: float) -> bool:
    """A disk may take a second for a checkpoint, and an epoch of a small set less than that."""
    if settings.save_every:
        return step.ends_epoch or step.step % settings.save_every == 0
    return step.ends_epoch and (seconds >= SAVING_PAUSE or step.epoch + 1 == settings.epochs)


def epoch_row(prepared: Prepared, step: Step) -> dict[str, Any]:
    validation, method = prepared.data.validation, prepared.training.method
    names: list[str] = []

    def read(outputs: Any) -> Tensor:
        """The prediction, and beside it what each branch would predict: all from one pass."""
        branches = method.branch_logits(outputs)
        names[:] = branches
        return torch.cat([method.logits(outputs), *branches.values()], 1)

    logits, *branches = predicted(prepared, validation, read).split(validation.labels.labels, 1)
    numbers = measure(prepared, validation, logits)
    row = {
        "epoch": step.epoch,
        "step": step.step,
        "loss": step.mean_loss,
        "learning_rate": step.learning_rate,
        "validation": {name: numbers[name] for name in ("mAP", "F1")},
        "vital_signs": method.vital_signs(),
    }
    if branches:
        row["branches"] = {name: {"mAP": mean_ap(prepared, some)} for name, some in zip(names, branches, strict=True)}
    if prepared.training.truth is not None:
        row["found_missing"] = {"right": step.found, "wrong": step.mistaken}
    signs = method.label_signs() if validation.labels.labels <= MOST_LABELS else {}
    if signs:
        row["by_label"] = {name: [float(f"{x:.7g}") for x in values.tolist()] for name, values in signs.items()}
    return row


def mean_ap(prepared: Prepared, logits: Tensor) -> dict[str, Any]:
    """Of the validation items, by group."""
    return grouped_means(
        average_precision(logits, prepared.data.validation.labels.targets()), prepared.groups
    ).as_dict()


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
    counts = HiddenCounts.of(predicted(prepared, items) > 0, truth.targets(), items.labels.targets())
    return number_or_none(micro_hidden_recall(counts))


def said_of_partial_truth(found: dict[str, Any]) -> str:
    """The mAP of a test set of which some labels are unknown, in a line."""
    number = found["mAP"]
    line = f"test: {found['observed_share']:.0%} of the labels are observed"
    low, high = number["bounds"]
    if low is None or high is None:
        return f"{line}; no label has a positive among them, so mAP cannot be measured"
    line += f"; mAP lies between {100 * low:.1f} and {100 * high:.1f}"
    if number["estimate"] is not None:
        a, b = number["interval"]
        line += f", estimate {100 * number['estimate']:.1f} [{100 * a:.1f}, {100 * b:.1f}] if {found['assumption']}"
    return line if number["estimate"] is not None else f"{line}; {found['assumption']} (data.kept_in_test)"


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
    ignores = not (completed.counted & ~completed.observed).any() and not completed.observed.all()
    if ignores and not prepared.statistics.negatives.any():
        say(
            f"warning: no training label is an observed negative and {prepared.config.method.name} ignores unknown "
            "labels, so it learns to find every label everywhere; try assume_negative or ignore_likely"
        )


def warn_of_empty_classes(prepared: Prepared, say: Callable[[str], None]) -> None:
    names = prepared.data.train.labels.names
    empty = [names[label] for label in (prepared.statistics.positives == 0).nonzero().flatten().tolist()]
    if empty:
        say(f"warning: no training item has {some(empty, 10)}; such a label cannot be learnt")


def predicted(prepared: Prepared, items: Items, read: Callable[[Any], Tensor] | None = None) -> Tensor:
    """Logits [N, C] of the trained model, or what `read` takes from its outputs."""
    training = prepared.training
    return logits_of(
        training.best,
        training.method,
        items,
        batch_size=4 * training.settings.batch_size,
        rank=training.fabric.global_rank,
        workers=training.settings.workers,
        place=training.place,
        read=read,
    )
