"""The labels and logits behind a run, and the labels of a named data set. Torch is needed from here on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from raretag.config.settings import Config, Data, checked, compose, read
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import LabelsAlone
from raretag.data.sources import find_source, hidden, load, long_tailed
from raretag.engine.batches import build_fabric
from raretag.engine.prepare import prepare
from raretag.figures.parts.runs import Run
from raretag.labels.counts import groups
from raretag.labels.store import LabelStore
from raretag.runs import evidence

Split = Literal["train", "validation", "test"]


def config_of(run: Run) -> Config:
    return checked(read(run.folder / "config.yaml"))


def labels_of(settings: Data, seed: int, split: Split) -> LabelStore:
    """Labels alone where the source can give them without inputs."""
    source = find_source(settings, seed)
    if not isinstance(source, LabelsAlone):
        store: LabelStore = load(settings, seed).parts[split].labels
        return store
    store = source.labels()[split]
    if split != "train":
        return store
    rows = long_tailed(store, settings, seed)
    return hidden(store if rows is None else store.take(rows), settings, seed)


def labels_of_run(run: Run, split: Split) -> LabelStore:
    config = config_of(run)
    store = labels_of(config.data, config.seed, split)
    if store.fingerprint() != run.record["data"]["fingerprint"][split]:
        raise UserError(
            f"the {split} labels of '{run.folder}' are not those that '{config.data.name}' gives now: "
            "the data has changed, or came from Python"
        )
    return store


def scored(run: Run, split: Split) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Probabilities, positives and observed negatives of a split, [N, C] each."""
    targets = labels_of_run(run, split).targets()
    logits = training_logits(run) if split == "train" else stored_logits(run, split)
    positive = (targets.positive > 0.5).numpy()
    return logits.double().sigmoid().numpy(), positive, targets.observed.numpy() & ~positive


def stored_logits(run: Run, split: Split) -> Tensor:
    if not (run.folder / evidence.LOGITS).is_file():
        raise UserError(f"the run '{run.folder}' has no {evidence.LOGITS}; train it again")
    return evidence.read_logits(run.folder)[split]


def training_logits(run: Run) -> Tensor:
    """The finished model on its training items: not kept by a run, so computed now."""
    config = config_of(run)
    alone = config.train.model_copy(update={"devices": 1, "nodes": 1, "accelerator": "cpu"})
    prepared = prepare(config.model_copy(update={"train": alone}), build_fabric(alone))
    path = run.folder / "model.safetensors"
    if not path.is_file():
        raise UserError(f"the run '{run.folder}' has no model.safetensors; train it again")
    try:
        prepared.trained.load_state_dict(load_file(path))
    except RuntimeError:
        raise UserError(f"the weights in '{run.folder}' are not of the model its config.yaml describes") from None
    return prepared.logits(prepared.data.train)


def training_labels(word: str) -> tuple[str, LabelStore, dict[str, Tensor]]:
    """Title, training labels and groups of a run, or of a data set by name."""
    title, train, _, members = labels_and_groups(word, tested=False)
    return title, train, members


def labels_and_groups(word: str, *, tested: bool = True) -> tuple[str, LabelStore, LabelStore, dict[str, Tensor]]:
    """The same with the labels of the test part, which are those of training again unless they are asked for."""
    if (Path(word) / "config.yaml").is_file():
        config = checked(read(Path(word) / "config.yaml"))
        settings = config.data
    else:
        config = compose(None, [], word)
        settings = config.data
        if Path(word).is_dir() or (settings.name not in registry.names("data")):
            raise UserError(
                f"'{word}' is neither a run folder nor a data set; {registry.nearest(word, registry.names('data'))}"
            )
        if "validation" in registry.parameters(registry.find("data", settings.name)):
            settings = settings.model_copy(update={"validation": 0.0})  # nothing needs to be held out
    store = labels_of(settings, config.seed, "train")
    positives = store.statistics(cooccurrence=False).positives
    if not int(torch.count_nonzero(positives)):
        raise UserError(f"the training part of '{word}' has no positive label")
    test = labels_of(settings, config.seed, "test") if tested else store
    return settings.name, store, test, groups(positives, config.group_edges)
