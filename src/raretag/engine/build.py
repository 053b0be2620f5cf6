"""From a configuration to the objects of a run. Names are looked up in the registry; nothing is written."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import DDPStrategy
from torch import Tensor, nn

from raretag.core import registry as registry
from raretag.core.errors import UserError
from raretag.core.method import Method, make_method
from raretag.core.statistics import LabelStatistics
from raretag.data.dataset import DataSet
from raretag.engine.card import RawInputs
from raretag.engine.config import Config, Named, Train
from raretag.engine.default import with_method, without_use
from raretag.engine.encode import digest_of, encoded
from raretag.engine.features import before, learn_scale, suited
from raretag.engine.fit import Sampler, Training
from raretag.engine.sources import group_counts, load
from raretag.labels.counts import groups

INPUT_ROLES = ("images", "text", "features", "id")  # columns of a table that a model's user needs too


@dataclass
class Prepared:
    config: Config  # with every `auto` replaced by what was chosen
    data: DataSet
    statistics: LabelStatistics
    groups: dict[str, Tensor]
    training: Training
    raw: RawInputs


def prepare(
    config: Config,
    fabric: Fabric,
    say: Callable[[str], None] = lambda line: None,
    data: DataSet | None = None,
    model: nn.Module | None = None,
) -> Prepared:
    """Data and model are made as configured, unless a user of the library brings his own."""
    data = load(config.data, config.seed) if data is None else data
    raw = raw_inputs(data)
    if config.encoder.name != "none":
        with fabric.rank_zero_first():  # the first process computes what the others then read
            torch.manual_seed(config.seed)
            encoder = build_backbone(config.encoder, raw.shape)
            raw = replace(raw, encoder=digest_of(encoder))
            data = encoded(data, encoder, workers=config.train.workers, say=say)
    config = with_method(config, data, say, own_model=model is not None)
    statistics = data.train.labels.statistics()
    method = make_method(config.method.name, config.method.options, statistics, items=len(data.train), seed=config.seed)
    if data.truth is not None:
        for part in method.modules():
            if hasattr(part, "truth"):  # counts how many of its corrections are right
                part.truth = data.truth.targets
    if unused := without_use(config, method):
        say(f"not used: {', '.join(unused)}; {config.method.name} solves and takes no steps")
    config = settled(config, data, method, own_model=model is not None)
    if config.train.epochs < len(method.stages):
        raise UserError(f"'{config.method.name}' trains in {len(method.stages)} stages and needs as many epochs")
    whole = type(method).loss is not Method.loss or any(part.whole_batch for part in method.objective.parts())
    if config.train.accumulate > 1 and whole:
        raise UserError(
            f"train.accumulate is {config.train.accumulate}, but the loss of '{config.method.name}' looks at a whole "
            "batch at once, so it cannot be made of parts; use a smaller train.batch_size"
        )
    torch.manual_seed(config.seed)  # the model's first weights
    if model is None:
        model = build_model(config, input_shape(data), statistics)
        learn_scale(model, data.train.inputs)
    model = fabric.to_device(model)
    if config.train.precision == "64-true":  # Fabric would turn the logits back into float32
        model = model.double()
    try_out(model, data, config)
    for stage in method.stages:
        if not any(re.search(stage.trains, name) for name, _ in model.named_parameters()):
            raise UserError(
                f"'{config.method.name}' has a stage that trains '{stage.trains}', but the model has none such; "
                f"leave head and branches to the method (it wants the head '{method.head}')"
            )
    positives = data.train.labels.positives

    def make_sampler(name: str | None) -> Sampler:
        chosen = config.sampler.name if name is None else name
        options = config.sampler.options if chosen == config.sampler.name else {}
        sampler: Sampler = registry.build("sampling", chosen, options, positives=positives, seed=config.seed)
        return sampler

    make_sampler(None)  # a misspelt option is found now, not when training begins
    training = Training(
        fabric=fabric,
        model=model,
        method=method.to(fabric.device),
        make_optimizer=lambda: build_optimizer(config.train, model, method),
        make_sampler=make_sampler,
        items=data.train,
        truth=data.truth,
        settings=config.train,
        seed=config.seed,
    )
    return Prepared(config, data, statistics, groups(group_counts(data), config.group_edges), training, raw)


def build_fabric(train: Train) -> Fabric:
    """One process, several that Fabric starts (`devices`), or those that torchrun or a cluster has started."""
    started = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    devices = started or train.devices
    nodes = int(os.environ["WORLD_SIZE"]) // started if started else train.nodes
    try:
        return make_fabric(train, devices, nodes)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"train.accelerator={train.accelerator}, {devices} devices: {error}") from None


def make_fabric(train: Train, devices: int, nodes: int) -> Fabric:
    many = devices * nodes > 1
    return Fabric(
        accelerator=train.accelerator,
        devices=devices,
        num_nodes=nodes,
        precision="32-true" if train.precision == "64-true" else train.precision,  # see prepare
        # Buffers are the same on every process by construction; sending them each step would only cost time.
        strategy=DDPStrategy(broadcast_buffers=False) if many else "auto",
    )


def settled(config: Config, data: DataSet, method: Method, *, own_model: bool = False) -> Config:
    """The configuration without `auto`, so that its file says what was done. A user's own model gets what he brings."""
    backbone = "small_resnet" if len(input_shape(data)) == 3 else "mlp"
    chosen = {"model": backbone, "branches": method.branches, "head": method.head, "sampler": method.sampler}
    changes: dict[str, Any] = {
        section: getattr(config, section).model_copy(update={"name": name})
        for section, name in chosen.items()
        if getattr(config, section).name == "auto"
    }
    if method.solves:
        changes["train"] = config.train.model_copy(update={"epochs": 1})
        if config.model.name == "auto":  # a linear classifier of the inputs themselves
            changes["model"] = config.model.model_copy(update={"name": "mlp", "layers": 0})
    rule = "raw" if own_model else suited(config.data.prepare, data.train.inputs)
    changes["data"] = config.data.model_copy(update={"prepare": rule})
    return config.model_copy(update=changes)


def input_shape(data: DataSet) -> tuple[int, ...]:
    return tuple(data.train.inputs.batch(torch.arange(1)).shape[1:])


def raw_inputs(data: DataSet) -> RawInputs:
    describe = getattr(data.train.inputs, "describe", None)
    columns = {role: name for role, name in data.notes.get("columns", {}).items() if role in INPUT_ROLES}
    return RawInputs({} if describe is None else describe(), input_shape(data), columns, None)


def build_backbone(chosen: Named, shape: tuple[int, ...]) -> nn.Module:
    backbone: nn.Module = registry.build(
        "models", chosen.name, chosen.options, channels=shape[0], size=math.prod(shape)
    )
    return backbone


def build_model(config: Config, shape: tuple[int, ...], statistics: LabelStatistics) -> nn.Module:
    """From inputs of a shape to the labels that were counted."""
    labels = statistics.labels

    def make_head(features: int) -> nn.Module:
        head: nn.Module = registry.build(
            "models.heads",
            config.head.name,
            config.head.options,
            features=features,
            labels=labels,
            statistics=statistics,
        )
        return head

    model: nn.Module = registry.build(
        "models.branches",
        config.branches.name,
        config.branches.options,
        make_backbone=lambda: before(config.data.prepare, math.prod(shape), build_backbone(config.model, shape)),
        make_head=make_head,
        labels=labels,
        statistics=statistics,
    )
    return model


@torch.no_grad()
def try_out(model: nn.Module, data: DataSet, config: Config) -> None:
    """A model for other inputs is found now, in one line, and not in the first step."""
    inputs = data.train.inputs.batch(torch.arange(min(2, len(data.train))))
    like = next(model.parameters())
    try:
        model.eval()(inputs.to(like) if inputs.is_floating_point() else inputs.to(like.device))
    except RuntimeError as error:
        raise UserError(
            f"the model '{config.model.name}' cannot read inputs of shape {tuple(inputs.shape[1:])} "
            f"({str(error).splitlines()[0]}); small_resnet wants images, mlp takes anything, model.name=auto chooses"
        ) from None


def build_optimizer(train: Train, model: nn.Module, method: Method) -> torch.optim.Optimizer:
    """For the parameters that learn now; the backbone may have its own rate, and the method its own groups."""
    backbone, rest = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (backbone if name.startswith("backbone") else rest).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": backbone, "lr": train.learning_rate * train.backbone_rate},
        {"params": rest, "lr": train.learning_rate},
        *method.parameter_groups(train.learning_rate),
    ]
    groups = [group for group in groups if group["params"]]
    if train.optimizer == "sgd":
        return torch.optim.SGD(groups, train.learning_rate, momentum=train.momentum, weight_decay=train.weight_decay)
    return torch.optim.AdamW(groups, train.learning_rate, weight_decay=train.weight_decay)
