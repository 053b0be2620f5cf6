"""From a configuration to the objects of a run. Names are looked up in the catalogue; nothing is written."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from scipy.sparse import csr_array
from torch import Tensor, nn

from raretag.core import catalogue
from raretag.core.method import Method
from raretag.core.statistics import LabelStatistics
from raretag.engine.config import Config, Data, Train
from raretag.engine.fit import Progress, Training
from raretag.labels.collection import DataSet, Items
from raretag.labels.groups import groups
from raretag.labels.hide import hide
from raretag.labels.store import LabelStore


@dataclass
class Prepared:
    config: Config  # with every `auto` replaced by what was chosen
    data: DataSet
    statistics: LabelStatistics
    groups: dict[str, Tensor]
    training: Training


def prepare(config: Config, fabric: Fabric) -> Prepared:
    data = load(config.data, config.seed)
    statistics = data.train.labels.statistics()
    torch.manual_seed(config.seed)  # the model's first weights
    method = catalogue.build_method(
        config.method.name, statistics, items=len(data.train), seed=config.seed, **config.method.options
    )
    config = settled(config, data, method)
    model = build_model(config, data)
    sampler = catalogue.build(
        "sampling",
        config.sampler.name,
        config.sampler.options,
        positives=positives_of(data.train.labels),
        seed=config.seed,
    )
    optimizer = build_optimizer(config.train, [*model.parameters(), *method.parameters()])
    model, optimizer = fabric.setup(model, optimizer)
    training = Training(
        fabric, model, method.to(fabric.device), optimizer, sampler, data.train, config.train, config.seed, Progress()
    )
    return Prepared(config, data, statistics, groups(statistics.positives, config.group_edges), training)


def load(settings: Data, seed: int) -> DataSet:
    """A source's data set, with training labels hidden as asked. Validation and test keep theirs."""
    source = catalogue.build("data", settings.name, settings.options, seed=seed)
    data: DataSet = source.load()
    if settings.hide == "fal":
        return data
    truth = data.train.labels
    visible = hide(truth, settings.hide, keep=settings.keep, seed=seed, at_least_one=settings.at_least_one)
    return replace(data, train=Items(data.train.inputs, visible), truth=truth)


def settled(config: Config, data: DataSet, method: Method) -> Config:
    """The configuration without `auto`, so that its file says what was done."""
    changes: dict[str, Any] = {}
    if config.model.name == "auto":
        name = "small_resnet" if len(input_shape(data)) == 3 else "mlp"
        changes["model"] = config.model.model_copy(update={"name": name})
    if config.sampler.name == "auto":
        changes["sampler"] = config.sampler.model_copy(update={"name": method.sampler})
    return config.model_copy(update=changes)


def positives_of(labels: LabelStore) -> csr_array:
    """Which item has which label, as samplers take it: [N, C]."""
    stored = labels.entries.positives
    ones = np.ones(len(stored.indices), dtype=np.int8)
    return csr_array((ones, stored.indices, stored.indptr), shape=(len(labels), labels.labels))


def input_shape(data: DataSet) -> tuple[int, ...]:
    return tuple(data.train.inputs.batch(torch.arange(1)).shape[1:])


def build_model(config: Config, data: DataSet) -> nn.Module:
    shape = input_shape(data)
    backbone = catalogue.build(
        "models", config.model.name, config.model.options, channels=shape[0], size=int(torch.tensor(shape).prod())
    )
    labels = data.train.labels.labels
    head = catalogue.build(
        "models.heads", config.head.name, config.head.options, features=backbone.features, labels=labels
    )
    return nn.Sequential(OrderedDict(backbone=backbone, head=head))


def build_optimizer(train: Train, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if train.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, train.learning_rate, momentum=train.momentum, weight_decay=train.weight_decay
        )
    return torch.optim.AdamW(parameters, train.learning_rate, weight_decay=train.weight_decay)
