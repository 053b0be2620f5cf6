"""Scores of training items by models that never saw them: a model must not grade its own memory.

The training items are dealt into folds, stratified so that rare labels are in every fold; the run is trained once for
each fold on all the others, as its configuration says, and scores the fold. A finished fold is kept in the folder, so
that a stopped job goes on with the next one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.dataset import DataSet
from raretag.engine.best import Best
from raretag.engine.build import Prepared, build_backbone, build_fabric, input_shape, prepare
from raretag.engine.config import Config, Encoder
from raretag.engine.encode import encoded
from raretag.engine.fit import fit
from raretag.engine.run import learn, predicted
from raretag.labels.split import split

Watch = Callable[[int, int], None]  # the fold, and how many epochs of it are done


def out_of_fold(
    config: Config,
    data: DataSet,
    folder: Path,
    *,
    folds: int = 5,
    say: Callable[[str], None] = lambda line: None,
    watch: Watch = lambda fold, epochs: None,
) -> Tensor:
    """Logits [N, C] of the training items; those that `folder` already has are not computed again."""
    items = len(data.train)
    if not 2 <= folds <= items:
        raise UserError(f"{folds} folds for {items} training items; expected 2 or more, and an item in each")
    alone = config.train.model_copy(update={"devices": 1, "nodes": 1})  # a batch is the same for any number of them
    config = config.model_copy(update={"train": alone})
    place = folder / f"{key_of(config, data)}-{folds}"
    place.mkdir(parents=True, exist_ok=True)
    parts = split(data.train.labels, [1.0 / folds] * folds, config.seed).parts
    paths = [place / f"fold-{fold}.safetensors" for fold in range(folds)]
    if not all(path.exists() for path in paths):
        data, config = with_features(data, config, say)
    logits = torch.zeros(items, data.train.labels.labels)  # [N, C]
    for fold, (rows, path) in enumerate(zip(parts, paths, strict=True)):
        if path.exists():
            watch(fold, config.train.epochs)
        else:
            scores = train_without(config, data, rows, lambda epochs, fold=fold: watch(fold, epochs))  # type: ignore[misc]
            new = path.with_suffix(".new")
            save_file({"logits": scores}, new)
            os.replace(new, path)
        logits[torch.from_numpy(rows)] = load_file(path)["logits"]
    return logits


def train_without(config: Config, data: DataSet, rows: np.ndarray, watch: Callable[[int], None]) -> Tensor:
    """Logits of these training rows by a model that was trained on the others."""
    rest = np.setdiff1d(np.arange(len(data.train)), rows)
    train, held = data.train.take(torch.from_numpy(rest)), data.train.take(torch.from_numpy(rows))
    ids = data.train.labels.given_ids
    itself = ids is not None and data.validation.labels.given_ids is ids  # a set without validation: not the fold back
    part = replace(data, train=train, validation=train if itself else data.validation, test=held, truth=None)
    prepared = prepare(config, build_fabric(config.train), data=replace(part, published=None))
    fit_quietly(prepared, watch)
    return predicted(prepared, held)


def fit_quietly(prepared: Prepared, watch: Callable[[int], None]) -> None:
    """Train without checkpoints; early stopping looks at validation, as the run did."""
    if prepared.training.settings.patience is not None:
        with tempfile.TemporaryDirectory() as folder:
            learn(prepared, Path(folder), [], Best(), lambda step, row: watch(step.epoch + 1) if row else None)
        return
    for step in fit(prepared.training):
        if step.ends_epoch:
            watch(step.epoch + 1)


def with_features(data: DataSet, config: Config, say: Callable[[str], None]) -> tuple[DataSet, Config]:
    """A frozen encoder looks at every item once, not once a fold."""
    if config.encoder.name == "none":
        return data, config
    torch.manual_seed(config.seed)
    encoder = build_backbone(config.encoder, input_shape(data))
    data = encoded(data, encoder, workers=config.train.workers, say=say)
    return data, config.model_copy(update={"encoder": Encoder()})


def key_of(config: Config, data: DataSet) -> str:
    """Other settings or other labels are other scores."""
    settings = config.model_dump_json(exclude={"group_edges", "least_frequent"})
    return hashlib.sha256(f"{settings} {data.train.labels.fingerprint()}".encode()).hexdigest()[:16]
