"""What `auto` stands for: the method of a run that names none, and the parts that suit the data and the method.

And which items teach: all of them, where a solver scores items out of fold. Such scores come from solutions that never
saw the item, so thresholds, calibration and numbers need no other items.
"""

from __future__ import annotations

from typing import Any

import torch

from raretag.config.settings import Config, Train
from raretag.core.listener import Listener
from raretag.core.method import Method
from raretag.core.protocols import Inputs, blocks_of
from raretag.core.ranker import Ranker, are_many, is_ranker
from raretag.core.solver import Solver, solver_named
from raretag.data.dataset import DataSet
from raretag.data.sources import load
from raretag.models.scaling import resolve_rule

ENTRIES = 2**27  # items x labels: 35 bytes each for scores out of fold and what is made of them, 5 GB
WEIGHTS = 2**27  # labels x columns: four bytes for each, a few times over
# On what and where, not how it trains.
BESIDES = {"devices", "nodes", "accelerator", "precision", "workers", "use_all", "refit", "fine_tune"}
SOLVER, RANKER = "blend", "ridge_centroids"  # for feature vectors; for those with very many labels
# A network for feature vectors that are too many for both trains for as long as validation gains (docs/log.md).
STEPS: dict[str, Any] = {
    "batch_size": 256,
    "learning_rate": 2e-3,
    "schedule": "constant",
    "epochs": 100,
    "patience": 3,
}
_ALL = (
    "linear models and, where held-out folds show that they help, a kernel, a forest and small networks are fitted to "
    "all of them at once"
)
EFFORTS = {  # what the solver fits, and what else could be asked for
    "quick": "--effort quick fits logistic regression, helped by labels that occur together; without it more is tried",
    "default": f"{_ALL}. --effort quick is faster; --effort best chooses by ten folds instead of five: up to twice the "
    "time for little or no gain",
    "best": f"{_ALL}. Without --effort best, it is faster",
}


def choose_method(config: Config, data: DataSet, listener: Listener, *, own_model: bool = False) -> Config:
    """The configuration with the method that `auto` stands for.

    Feature vectors get a solver, or a ranker where labels are very many. A setting that says how to train, or with
    which model, asks for a network that is trained step by step.
    """
    if config.method.name != "auto":
        return config
    inputs = data.train.inputs.batch(torch.arange(1))
    labels = data.train.labels
    stepwise = is_stepwise(config, own_model=own_model)
    name = None if stepwise else unstepped(data)
    if name is None and (config.method.options or bool(labels.statistics(cooccurrence=False).negatives.any())):
        name = "binary_cross_entropy"
    elif name is None:
        name = "assume_negative"
    size = f"{len(labels):,} items x {labels.labels:,} labels, {inputs[0].numel():,} numbers per item"
    listener.message(
        f"no method was named, so {name} was chosen. {reason_for(name, config, stepwise, inputs.ndim, size)}"
    )
    changes: dict[str, Any] = {"method": config.method.model_copy(update={"name": name})}
    if inputs.ndim == 2 and not stepwise and name not in (SOLVER, RANKER):
        changes["train"] = config.train.model_copy(update=STEPS)
    return config.model_copy(update=changes)


def unstepped(data: DataSet) -> str | None:
    """The solver or the ranker for this data; None: a network learns from it step by step."""
    inputs, labels = data.train.inputs.batch(torch.arange(1)), data.train.labels
    if inputs.ndim != 2:
        return None
    if are_many(len(labels), labels.labels, inputs[0].numel()):
        return RANKER
    entries, weights = len(labels) * labels.labels, labels.labels * inputs[0].numel()
    return SOLVER if entries <= ENTRIES and weights <= WEIGHTS else None


def without_steps(config: Config, data: DataSet | None = None, *, own_model: bool = False) -> str | None:
    """The solver or the ranker that `auto` stands for, if it does; the data is read for that, unless it is given."""
    if is_stepwise(config, own_model=own_model):
        return None
    return unstepped(load(with_all_teaching(config, True).data, config.seed) if data is None else data)


def on_one_device(config: Config, data: DataSet | None, listener: Listener, *, own_model: bool) -> Config:
    """A run on several devices: on one of them if `auto` stands for a ranker, which one process fits.

    To know that, the data is read before other processes are started.
    """
    if config.method.name != "auto" or without_steps(config, data, own_model=own_model) != RANKER:
        return config
    listener.message(f"{RANKER}, which suits so many labels, is fitted by one process: one device is used")
    return config.model_copy(update={"train": config.train.model_copy(update={"devices": 1, "nodes": 1})})


def reason_for(name: str, config: Config, stepwise: bool, dimensions: int, size: str) -> str:
    """Why this method, in plain words, and what else there is."""
    others = "`raretag list methods` shows the others, and `raretag inspect DATA --recommend` tries some of them"
    if name == SOLVER:
        return f"Items are feature vectors ({size}): {EFFORTS[config.effort]}; {others}."
    if name == RANKER:
        return (
            f"There are too many labels to score all of them for every item ({size}), so they are ranked, and "
            "features and labels stay sparse from the file to the model. "
            f"--method {SOLVER} would score all of them, and `raretag list ranking` shows other rankers."
        )
    more = "More epochs (train.epochs) may do better"
    if config.method.options:
        why = f"The option method.{next(iter(config.method.options))} belongs to the plain loss"
    elif stepwise:
        why = "Your training or model settings ask for a network that is trained step by step"
    elif dimensions != 2:
        why = "Items are not feature vectors, so a network is trained on them step by step"
    else:
        why = f"The data ({size}) is too large for {SOLVER}, so a network is trained on it step by step"
        more = f"It is trained until the validation mAP has not risen for {STEPS['patience']} epochs"
    loss = "unknown labels count as negatives" if name == "assume_negative" else "each label is a separate yes or no"
    return f"{why}. In the plain loss {loss}. {more}; {others}."


def is_stepwise(config: Config, *, own_model: bool) -> bool:
    """Whether a setting asks for a network that is trained step by step: how to train it, or which one."""
    parts = (config.model, config.head, config.branches, config.sampler)
    steps = bool(config.train.model_fields_set - BESIDES) and config.fine_tune.name == "none"
    trained = steps or config.train.fine_tune
    return own_model or trained or bool(config.method.options) or any(part.name != "auto" for part in parts)


def resolve_auto(
    config: Config, inputs: Inputs, shape: tuple[int, ...], learner: Method | Solver, *, own_model: bool = False
) -> Config:
    """The configuration without `auto`, so that its file says what was done. A model of one's own stays as it is."""
    chosen = {"model": "small_resnet" if len(shape) == 3 else "mlp", "head": learner.head}
    if isinstance(learner, Solver):
        chosen |= {"branches": Method.branches, "sampler": Method.sampler}
    else:
        chosen |= {"branches": learner.branches, "sampler": learner.sampler}
    changes: dict[str, Any] = {}
    for section, name in chosen.items():
        if getattr(config, section).name == "auto":
            changes[section] = getattr(config, section).model_copy(update={"name": name})
    if isinstance(learner, Solver):
        changes["train"] = config.train.model_copy(update={"epochs": 1})
        if config.model.name == "auto":  # a linear classifier of the inputs themselves
            changes["model"] = config.model.model_copy(update={"name": "mlp", "layers": 0})
    rule = "raw" if own_model else resolve_rule(config.data.prepare, inputs)
    changes["data"] = config.data.model_copy(update={"prepare": rule})
    return config.model_copy(update=changes)


def unused_settings(config: Config, learner: Method | Solver | Ranker) -> list[str]:
    """Settings that a solver or a ranker does not look at, as it takes no steps; those of `--fine-tune` do."""
    if isinstance(learner, Method) or config.fine_tune.name != "none":
        return []
    plain, train = Train(), config.train
    steps = Train.model_fields.keys() - BESIDES
    unused = [f"train.{name}" for name in sorted(steps) if getattr(train, name) != getattr(plain, name)]
    drawn = config.sampler.name not in ("auto", Method.sampler)
    return [name for name in unused if name != "train.epochs" or train.epochs > 1] + ["sampler.name"] * drawn


def with_texts_as_read(config: Config, data: DataSet) -> Config:
    """The settings say how texts and columns became vectors, so that whoever loads them later gets the same ones."""
    chosen = dict(data.notes.get("texts", {}))
    if "mixed" in data.notes and config.data.name == "table":
        chosen["mixed"] = data.notes["mixed"]
    return config.model_copy(update={"data": config.data.model_copy(update=chosen)}) if chosen else config


def blocks_for(config: Config, inputs: Inputs) -> dict[str, range]:
    """The columns of a solver's features by their kind, if features are the inputs themselves."""
    linear = config.model.name == "mlp" and config.model.options.get("layers") == 0
    return blocks_of(inputs) if linear else {}


def all_will_teach(config: Config, method: Method | Solver | Ranker | None, *, own_model: bool) -> bool:
    """What is known before the data is loaded; `auto` may choose otherwise once it has seen the data."""
    if method is not None:
        return all_teach(config, method)
    name = config.method.name
    if name == "auto":
        if is_stepwise(config, own_model=own_model):
            return False
        name = SOLVER
    if is_ranker(name):
        return config.train.use_all
    solver = solver_named(name)
    return config.train.use_all and solver is not None and solver.cross_fits


def all_teach(config: Config, learner: Method | Solver | Ranker) -> bool:
    """Whether the learner needs no validation items of its own, and the settings let them teach."""
    alone = isinstance(learner, Ranker) or (isinstance(learner, Solver) and learner.cross_fits)
    return config.train.use_all and alone


def with_all_teaching(config: Config, teach: bool) -> Config:
    """The settings of the data say it too, so that whoever loads it later gets the same parts."""
    if config.data.all_teach == teach:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"all_teach": teach})})
