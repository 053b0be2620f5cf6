"""What `auto` stands for: the method of a run that names none, and the parts that suit the data and the method."""

from __future__ import annotations

from typing import Any

import torch

from raretag.config.settings import Config, Train
from raretag.core.listener import Listener
from raretag.core.method import Method
from raretag.core.protocols import Inputs
from raretag.core.solver import Solver
from raretag.data.dataset import DataSet
from raretag.models.scaling import resolve_rule

ENTRIES = 2**28  # items x labels: scores out of fold take four bytes for each, a few times over
WEIGHTS = 2**28  # labels x columns: four bytes for each, a few times over
BESIDES = {"devices", "nodes", "accelerator", "precision", "workers"}  # where a run takes place, not how it trains


def choose_method(config: Config, data: DataSet, listener: Listener, *, own_model: bool = False) -> Config:
    """The configuration with the method that `auto` stands for.

    Feature vectors get a solver. A setting that says how to train, or with which model, asks for a network that is
    trained step by step; feature vectors that are too many for a solver get one too.
    """
    if config.method.name != "auto":
        return config
    inputs = data.train.inputs.batch(torch.arange(1))
    labels = data.train.labels
    parts = (config.model, config.head, config.branches, config.sampler)
    stepwise = own_model or any(part.name != "auto" for part in parts) or bool(config.train.model_fields_set - BESIDES)
    small = len(labels) * labels.labels <= ENTRIES and labels.labels * inputs[0].numel() <= WEIGHTS
    if not stepwise and not config.method.options and inputs.ndim == 2 and small:
        name, reason = "blend", "inputs are feature vectors"
    elif config.method.options:
        name, reason = "binary_cross_entropy", f"the plain loss, as method.{next(iter(config.method.options))} is set"
    elif bool(labels.statistics(cooccurrence=False).negatives.any()):
        name, reason = "binary_cross_entropy", "the plain loss"
    else:
        name, reason = "assume_negative", "the plain loss, and no negative label is given"
    listener.message(f"no method was named: {name} ({reason})")
    return config.model_copy(update={"method": config.method.model_copy(update={"name": name})})


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


def unused_settings(config: Config, learner: Method | Solver) -> list[str]:
    """Settings that a solver does not look at, as it takes no steps."""
    if not isinstance(learner, Solver):
        return []
    plain, train = Train(), config.train
    steps = Train.model_fields.keys() - BESIDES
    unused = [f"train.{name}" for name in sorted(steps) if getattr(train, name) != getattr(plain, name)]
    drawn = config.sampler.name not in ("auto", Method.sampler)
    return [name for name in unused if name != "train.epochs" or train.epochs > 1] + ["sampler.name"] * drawn
