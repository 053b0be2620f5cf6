"""Scores of training items by models that never saw them: a model must not grade its own memory.

The training items are dealt into folds, stratified so that rare labels are in every fold; the run is trained once for
each fold on all the others, as its configuration says, and scores the fold. A finished fold is kept in the folder, so
that a stopped job goes on with the next one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from raretag.config.settings import Config, Encoder
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener, Step
from raretag.core.ranker import Ranked
from raretag.data.dataset import DataSet
from raretag.data.fingerprint import fingerprint
from raretag.engine.batches import build_fabric
from raretag.engine.encode import choose_encoder, encoded
from raretag.engine.fit import fit
from raretag.engine.prepare import Begun, Prepared, build_learner, prepare
from raretag.engine.ranked import KEPT, with_scale
from raretag.engine.run import learn, solve
from raretag.labels.split import split
from raretag.models.assemble import build_backbone
from raretag.runs import manifest
from raretag.runs.card import RawInputs


class Fold(Listener):
    """How far a fold is, as a share of all folds."""

    def __init__(self, whole: Listener, fold: int, folds: int, epochs: int) -> None:
        self.whole, self.fold, self.folds, self.epochs = whole, fold, folds, epochs

    def epoch(self, step: Step, row: dict[str, object]) -> None:
        self.progress((step.epoch + 1) / self.epochs)

    def progress(self, share: float) -> None:
        self.whole.progress((self.fold + share) / self.folds)


def out_of_fold(
    config: Config,
    data: DataSet,
    folder: Path,
    *,
    folds: int = 5,
    listener: Listener = SILENT,
) -> Tensor:
    """Logits [N, C] of the training items; those that `folder` already has are not computed again."""
    items = len(data.train)
    if not 2 <= folds <= items:
        raise UserError(f"{folds} folds for {items} training items; expected 2 or more, and an item in each")
    alone = config.train.model_copy(update={"devices": 1, "nodes": 1})  # a batch is the same for any number of them
    config = config.model_copy(update={"train": alone})
    place = place_of(folder, config, data, folds, listener)
    parts = split(data.train.labels, [1.0 / folds] * folds, config.seed).parts
    paths = [place / f"fold-{fold}.safetensors" for fold in range(folds)]
    if not all(path.exists() for path in paths):
        data, config = with_features(data, config, listener)
    logits = torch.zeros(items, data.train.labels.labels)  # [N, C]
    for fold, (rows, path) in enumerate(zip(parts, paths, strict=True)):
        part = Fold(listener, fold, folds, config.train.epochs)
        if not path.exists():
            scores = train_without(config, data, rows, part)
            with manifest.rewriting(path) as new:
                save_file({"logits": scores}, new)
        part.progress(1.0)
        logits[torch.from_numpy(rows)] = load_file(path)["logits"]
    return logits


def ranked_out_of_fold(
    config: Config, data: DataSet, folder: Path, *, folds: int = 5, listener: Listener = SILENT
) -> Ranked:
    """The same for very many labels: the first labels of each training item, ranked by a model that never saw it."""
    items = len(data.train)
    if not 2 <= folds <= items:
        raise UserError(f"{folds} folds for {items} training items; expected 2 or more, and an item in each")
    place = place_of(folder, config, data, folds, listener)
    labels, scores = np.zeros((items, KEPT), np.int32), np.zeros((items, KEPT), np.float32)
    for fold, rows in enumerate(split(data.train.labels, [1.0 / folds] * folds, config.seed).parts):
        path, part = place / f"fold-{fold}.safetensors", Fold(listener, fold, folds, 1)
        if not path.exists():
            found = ranked_without(config, data, rows, part)
            with manifest.rewriting(path) as new:
                save_file({"labels": torch.from_numpy(found.labels), "scores": torch.from_numpy(found.scores)}, new)
        part.progress(1.0)
        stored = load_file(path)
        labels[rows], scores[rows] = stored["labels"].numpy(), stored["scores"].numpy()
    return Ranked(labels, scores)


def ranked_without(
    config: Config, data: DataSet, rows: NDArray[np.integer[Any]], listener: Listener = SILENT
) -> Ranked:
    """The first labels of these training rows, by a model that was fitted to the others."""
    rest = data.train.take(torch.from_numpy(np.setdiff1d(np.arange(len(data.train)), rows)))
    learner = build_learner(config, rest.labels)
    _, model = with_scale(Begun(config, replace(data, train=rest), RawInputs.of(data), learner))
    model.fit(rest.inputs, rest.labels.known(), listener)
    return model.rank(data.train.take(torch.from_numpy(rows)).inputs, KEPT)


def train_without(config: Config, data: DataSet, rows: NDArray[np.integer[Any]], listener: Listener = SILENT) -> Tensor:
    """Logits of these training rows by a model that was trained on the others."""
    rest = np.setdiff1d(np.arange(len(data.train)), rows)
    train, held = data.train.take(torch.from_numpy(rest)), data.train.take(torch.from_numpy(rows))
    ids = data.train.labels.given_ids
    itself = data.validation is data.train  # a set without validation: not the fold back
    itself |= ids is not None and data.validation.labels.given_ids is ids
    part = replace(data, train=train, validation=train if itself else data.validation, test=held, truth=None)
    prepared = prepare(config, build_fabric(config.train), data=replace(part, published=None))
    fit_quietly(prepared, listener)
    return prepared.logits(held)


def fit_quietly(prepared: Prepared, listener: Listener = SILENT) -> None:
    """Learn without writing anything; validation is only measured where early stopping looks at it, as the run did."""
    training = prepared.training
    if prepared.solver is not None:
        solve(prepared, prepared.solver, listener)
    elif training is not None and training.settings.patience is not None:
        learn(prepared, None, listener=listener)
    elif training is not None:
        for step in fit(training):
            if step.ends_epoch:
                listener.epoch(step, {})


def with_features(data: DataSet, config: Config, listener: Listener) -> tuple[DataSet, Config]:
    """A frozen encoder looks at every item once, not once a fold."""
    config, data = choose_encoder(config, data, listener)
    if config.encoder.name == "none":
        return data, config
    torch.manual_seed(config.seed)
    encoder = build_backbone(config.encoder, data.input_shape)
    data = encoded(data, encoder, workers=config.train.workers, listener=listener)
    return data, config.model_copy(update={"encoder": Encoder(name="none")})


def place_of(folder: Path, config: Config, data: DataSet, folds: int, listener: Listener) -> Path:
    """Where the scores of finished folds are kept; those that are not as they were written are computed again."""
    place = folder / f"{key_of(config, data)}-{folds}"
    place.mkdir(parents=True, exist_ok=True)
    if manifest.read(place) is None:
        manifest.write(place, None, {})
    for name in manifest.edited(place):
        if (place / name).exists():
            listener.message(f"{manifest.sentence(name)}, so this fold is trained again")
            (place / name).unlink()
    return place


def key_of(config: Config, data: DataSet) -> str:
    """Other settings, other inputs or other labels are other scores."""
    settings = config.model_dump_json(exclude={"group_edges", "least_frequent"})
    content = f"{data.train.labels.fingerprint()} {fingerprint(data)}"  # the first knows the order of rows
    return hashlib.sha256(f"{settings} {content}".encode()).hexdigest()[:16]
