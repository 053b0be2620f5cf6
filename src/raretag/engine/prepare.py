"""From a configuration to the objects of a run. Names are looked up in the registry; nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from raretag.config.settings import Config, Train
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.method import Method, make_method
from raretag.core.protocols import CountsCorrections, Sampler
from raretag.core.ranker import Ranker, is_ranker
from raretag.core.solver import Solver, solver_named
from raretag.core.targets import LabelStatistics
from raretag.data.dataset import DataSet, Items
from raretag.data.inputs.with_tokens import data_with_tokens, encoded_texts
from raretag.data.sources import group_counts, load
from raretag.engine.auto import (
    all_teach,
    all_will_teach,
    blocks_for,
    choose_method,
    resolve_auto,
    unused_settings,
    with_all_teaching,
    with_texts_as_read,
)
from raretag.engine.batches import logits_of, placed
from raretag.engine.encode import choose_encoder, encoded
from raretag.engine.fit import Training
from raretag.engine.text_backbone import head_first, with_backbone, with_tokens
from raretag.labels.counts import groups
from raretag.labels.store import LabelStore
from raretag.models.assemble import build_backbone, build_model
from raretag.models.pretrained import digest_of
from raretag.models.scaling import learn_scale
from raretag.runs.card import RawInputs
from raretag.runs.cost import Cost

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from raretag.metrics.outside import Outside


@dataclass
class Prepared:
    """Everything that a run works with. Either `training` or `solver` is there."""

    config: Config  # with every `auto` replaced by what was chosen
    data: DataSet
    statistics: LabelStatistics
    groups: dict[str, Tensor]
    raw: RawInputs
    fabric: Fabric
    model: nn.Module
    training: Training | None = None
    solver: Solver | None = None
    out_of_fold: Tensor | None = None  # [N, C] logits of the training items by solutions that never saw them
    first_validation: Tensor | None = None  # [V, C] logits of validation items by the fit before `train.refit`
    test_logits: Tensor | None = None  # [T, C] where they were computed on the way
    refitted: dict[str, Any] | None = None  # what the model was then fitted to, for the record
    outside: Outside | None = None  # what scores from outside mean, where the data has such
    cost: Cost = field(default_factory=Cost)

    @property
    def learner(self) -> Method | Solver:
        learner = self.solver if self.training is None else self.training.method
        assert learner is not None
        return learner

    @property
    def trained(self) -> nn.Module:
        """What is evaluated and shipped: the model, or the moving average of its weights."""
        return self.model if self.training is None else self.training.best

    def logits(self, items: Items, read: Callable[[Any], Tensor] | None = None) -> Tensor:
        """[N, C] of the trained model, or what `read` takes from its outputs."""
        outside = self.outside if read is None else None
        if read is None:
            read = _unchanged if self.training is None else self.training.method.logits
        found = logits_of(
            self.trained,
            items,
            read,
            batch_size=4 * self.config.train.batch_size,
            rank=self.fabric.global_rank,
            workers=self.config.train.workers,
            place=lambda inputs: placed(self.fabric, self.model, inputs),
        )
        if outside is None or not outside.counts or self.data.prior is None:
            return found
        return outside.added(found, self.data.prior.of(items.labels))


def _unchanged(outputs: Tensor) -> Tensor:
    return outputs


def prepare(
    config: Config,
    fabric: Fabric,
    listener: Listener = SILENT,
    data: DataSet | None = None,
    model: nn.Module | None = None,
    method: Method | Solver | None = None,
) -> Prepared:
    """Data, model and method are made as configured, unless the caller brings them."""
    begun = begin(config, fabric, listener, data, method, own_model=model is not None)
    return assembled(begun, fabric, listener, model)


@dataclass(frozen=True)
class Begun:
    """What a run learns from and what learns, before there is a model."""

    config: Config
    data: DataSet
    raw: RawInputs
    learner: Method | Solver | Ranker
    whole: DataSet | None = None  # as an encoder reads them that may be tuned: images, or texts with their tokens


def begin(
    config: Config,
    fabric: Fabric,
    listener: Listener,
    data: DataSet | None,
    method: Method | Solver | Ranker | None,
    *,
    own_model: bool,
) -> Begun:
    """Load the data and choose the learner."""
    brought = data
    config = with_tokens(config)
    if brought is None:
        config = with_all_teaching(config, all_will_teach(config, method, own_model=own_model))
    config, data, raw, whole = load_inputs(config, brought, fabric, listener)
    if method is None:
        config = choose_method(config, data, listener, own_model=own_model)
    learner = build_learner(config, data.train.labels) if method is None else method
    if brought is not None and all_teach(config, learner):
        data, whole = data.all_teaching(), None if whole is None else whole.all_teaching()
    elif brought is None and all_teach(config, learner) != config.data.all_teach:  # the data spoke for another learner
        config = with_all_teaching(config, all_teach(config, learner))
        config, data, raw, whole = load_inputs(config, None, fabric, listener)
        learner = build_learner(config, data.train.labels) if method is None else method
    if brought is None:
        config = with_texts_as_read(config, data)
    if unused := unused_settings(config, learner):
        listener.message(f"not used: {', '.join(unused)}; {config.method.name} is solved without training steps")
    return Begun(config, data, raw, learner, whole)


def assembled(begun: Begun, fabric: Fabric, listener: Listener, model: nn.Module | None = None) -> Prepared:
    """The model, and everything else that training works with."""
    config, data, raw, learner = begun.config, begun.data, begun.raw, begun.learner
    if isinstance(learner, Ranker):
        raise UserError(f"{config.method.name} ranks labels and has no logits of all of them; choose another method")
    statistics = data.train.labels.statistics()
    shape = data.input_shape
    config = with_backbone(config, data) if model is None else config
    built = model is None
    config = resolve_auto(config, data.train.inputs, shape, learner, own_model=model is not None)
    torch.manual_seed(config.seed)  # the model's first weights
    if model is None:
        model = build_model(
            backbone=config.model,
            head=config.head,
            branches=config.branches,
            scaling=config.data.prepare,
            shape=shape,
            statistics=statistics,
        )
        learn_scale(model, data.train.inputs)
    model = fabric.to_device(model)
    if config.train.precision == "64-true":  # Fabric would turn the logits back into float32
        model = model.double()
    try_out(model, data, config)
    if built and isinstance(learner, Method):
        head_first(model, data, config, fabric, listener)
    label_groups = groups(group_counts(data), config.group_edges)
    prepared = Prepared(config, data, statistics, label_groups, raw, fabric, model)
    if data.prior is not None:
        from raretag.engine.prior import believe  # most data has none

        prepared.outside = believe(data, data.prior, learner, listener)
    if isinstance(learner, Solver):
        learner.blocks = blocks_for(config, data.train.inputs)
        prepared.solver = learner
    else:
        check_method(learner, config, model)
        prepared.training = make_training(prepared, learner)
    return prepared


def load_inputs(
    config: Config, data: DataSet | None, fabric: Fabric, listener: Listener
) -> tuple[Config, DataSet, RawInputs, DataSet | None]:
    """The data as it is given or as the configuration names it, behind the encoder if there is one, and before it.

    The latter of texts is made only where their encoder is to be tuned.
    """
    data = load(config.data, config.seed) if data is None else data
    config, data = choose_encoder(config, data, listener)
    raw, whole = RawInputs.of(data), None
    if config.encoder.name != "none":
        with fabric.rank_zero_first():  # the first process computes what the others then read
            torch.manual_seed(config.seed)
            encoder = build_backbone(config.encoder, raw.shape)
            raw, whole = replace(raw, encoder=about_encoder(encoder)), data
            data = encoded(data, encoder, workers=config.train.workers, listener=listener)
    elif config.fine_tune.name != "none" and encoded_texts(data.train.inputs) is not None:
        whole = data_with_tokens(data)
    return config, data, raw, whole


def about_encoder(encoder: nn.Module) -> dict[str, str]:
    """What the card says of it."""
    known = {name: getattr(encoder, name, None) for name in ("title", "licence")}
    return {"sha256": digest_of(encoder)} | {name: str(value) for name, value in known.items() if value is not None}


def build_learner(config: Config, labels: LabelStore) -> Method | Solver | Ranker:
    """The method, the solver or the ranker that the configuration names."""
    name, options = config.method.name, config.method.options
    if is_ranker(name):
        ranker: Ranker = registry.build("ranking", name, options, kind=Ranker, seed=config.seed, effort=config.effort)
        return ranker
    if solver_named(name) is not None:
        solver: Solver = registry.build("solvers", name, options, kind=Solver, seed=config.seed, effort=config.effort)
        return solver
    return make_method(name, options, labels.statistics(), items=len(labels), seed=config.seed)


def make_training(prepared: Prepared, method: Method) -> Training:
    config, data, model, fabric = prepared.config, prepared.data, prepared.model, prepared.fabric
    positives = data.train.labels.positives
    if data.truth is not None:
        parts: list[Any] = [part for part in method.modules() if isinstance(part, CountsCorrections)]
        for part in parts:
            part.truth = data.truth.targets

    def make_sampler(name: str | None) -> Sampler:
        chosen = config.sampler.name if name is None else name
        options = config.sampler.options if chosen == config.sampler.name else {}
        sampler: Sampler = registry.build("sampling", chosen, options, positives=positives, seed=config.seed)
        return sampler

    make_sampler(None)  # a misspelt option is found now, not when training begins
    return Training(
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


def check_method(method: Method, config: Config, model: nn.Module) -> None:
    """Settings that the method cannot be trained with are refused before the first step."""
    name = config.method.name
    if config.train.epochs < len(method.stages):
        raise UserError(f"'{name}' trains in {len(method.stages)} stages and needs as many epochs")
    whole = type(method).loss is not Method.loss or any(part.whole_batch for part in method.objective.parts())
    if config.train.accumulate > 1 and whole:
        raise UserError(
            f"train.accumulate is {config.train.accumulate}, but the loss of '{name}' looks at a whole batch at once, "
            "so it cannot be made of parts; use a smaller train.batch_size"
        )
    for stage in method.stages:
        if not any(re.search(stage.trains, parameter) for parameter, _ in model.named_parameters()):
            raise UserError(
                f"'{name}' has a stage that trains '{stage.trains}', but the model has none such; "
                f"leave head and branches to the method (it wants the head '{method.head}')"
            )


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
    backbone: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (backbone if name.startswith("backbone") else rest).append(parameter)
    parts: list[dict[str, Any]] = [
        {"params": backbone, "lr": train.learning_rate * train.backbone_rate},
        {"params": rest, "lr": train.learning_rate},
        *method.parameter_groups(train.learning_rate),
    ]
    parts = [part for part in parts if part["params"]]
    if train.optimizer == "sgd":
        return torch.optim.SGD(parts, train.learning_rate, momentum=train.momentum, weight_decay=train.weight_decay)
    return torch.optim.AdamW(parts, train.learning_rate, weight_decay=train.weight_decay)
