"""The method of a run that names none: `committee` where it fits, or `logistic_regression`, or the plain loss."""

from __future__ import annotations

from collections.abc import Callable

import torch

from raretag.core.method import Method
from raretag.data.dataset import DataSet
from raretag.engine.config import Config, Train

ENTRIES = 2**26  # of the label matrix, which a method that solves keeps whole
WEIGHTS = 2**23  # labels x columns; the solver keeps about twenty times that
COLUMNS = 2**14  # of which each of the committee's hidden units has a weight: 128 MB
BESIDES = {"devices", "nodes", "accelerator", "precision", "workers"}  # where a run takes place, not how it trains


def with_method(config: Config, data: DataSet, say: Callable[[str], None], *, own_model: bool = False) -> Config:
    """The configuration with the method that `auto` stands for.

    Who says how to train, or with which model, wants a network that is trained step by step. Feature vectors that are
    too many for a solver get one too.
    """
    if config.method.name != "auto":
        return config
    inputs = data.train.inputs.batch(torch.arange(1))
    labels = data.train.labels
    parts = (config.model, config.head, config.branches, config.sampler)
    stepwise = own_model or any(part.name != "auto" for part in parts) or bool(config.train.model_fields_set - BESIDES)
    small = len(labels) * labels.labels <= ENTRIES and labels.labels * inputs[0].numel() <= WEIGHTS
    if not stepwise and not config.method.options and inputs.ndim == 2 and small:
        name, reason = "committee", "inputs are feature vectors"
        if inputs.shape[1] > COLUMNS:
            name, reason = "logistic_regression", f"inputs are feature vectors of more than {COLUMNS:,} columns"
    elif config.method.options:
        name, reason = "binary_cross_entropy", f"the plain loss, as method.{next(iter(config.method.options))} is set"
    elif bool(labels.statistics(cooccurrence=False).negatives.any()):
        name, reason = "binary_cross_entropy", "the plain loss"
    else:
        name, reason = "assume_negative", "the plain loss, and no negative label is given"
    say(f"no method was named: {name} ({reason})")
    return config.model_copy(update={"method": config.method.model_copy(update={"name": name})})


def without_use(config: Config, method: Method) -> list[str]:
    """Settings that a method without steps does not look at."""
    plain, train = Train(), config.train
    steps = Train.model_fields.keys() - BESIDES if method.solves else set()
    unused = [f"train.{name}" for name in sorted(steps) if getattr(train, name) != getattr(plain, name)]
    drawn = method.solves and config.sampler.name not in ("auto", method.sampler)
    return [name for name in unused if name != "train.epochs" or train.epochs > 1] + ["sampler.name"] * drawn
