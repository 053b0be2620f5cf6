"""Fine-tuning an encoder (`--fine-tune`): first a classifier of frozen features, then the network from there.

1. The default has been fitted to frozen features of all items: every item has a score of a model that never saw it.
2. The items are cut into two parts. For each part, a network learns from the other. Its head begins as balanced
   logistic regression on frozen features; then its last layers and the head learn with the method that was asked for,
   or else the plain loss, at a rate that rises and then falls, and scores the part that it did not see. Photographs
   are cropped, mirrored and coloured at random and drawn by class, and a moving average of the weights is taken. All
   layers of a text encoder learn.
3. Scores of the frozen model and the mean of the networks' scores are added up, with the share that is best for the
   items' scores of models that never saw them. Where no share pays, the frozen model stays.

So every labelled item teaches, and thresholds, calibration and validation numbers come out of fold, as without tuning.
A run that is resumed begins anew.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raretag.config.settings import Chosen, Config, Encoder, FineTune, Train
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.method import Method
from raretag.core.protocols import Describes, Inputs, blocks_of
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet, Items, TensorInputs
from raretag.data.inputs.with_tokens import encoded_texts
from raretag.engine.batches import features_of
from raretag.engine.fit import Training, fit
from raretag.engine.prepare import Prepared, assembled, begin, build_learner, make_training
from raretag.engine.text_backbone import TRAINING
from raretag.labels.split import split
from raretag.metrics.precision_curve import average_precision
from raretag.models.assemble import build_backbone, width_of
from raretag.models.fine_tuned import PARTS, EndToEnd, FineTuned, FirstColumns, LastColumns, hold_first, tuned_network
from raretag.models.text_transformer import SentenceNetwork

LEARNING = 0.75  # of the network's weights, the last ones: less than half of its work
SHARES = (0.15, 0.3, 0.5)  # of the tuned network's scores, beside none
METHOD = "assume_negative"
SAMPLER: dict[str, Any] = {"name": "class_aware", "reduce": None}  # rare labels take their turn, too
PHOTOGRAPHS: dict[str, Any] = {
    "epochs": 4,
    "learning_rate": 1e-4,  # of the head, which is solved already
    "backbone_rate": 3.0,
    "weight_decay": 0.01,
    "warmup": 0.1,
    "clip": 1.0,
    "average": 0.98,
}
TEXTS: dict[str, Any] = {**TRAINING, "epochs": 4}
ROWS = 256  # feature vectors that are looked at together
DRAWS = 20  # epochs that tell how often each item is drawn
RAREST, ROUNDS = 1e-4, 60  # of a label's frequency; of its approximation
FIRST_STEPS = 4  # after which the time of the whole is told


def fine_tune(prepared: Prepared, items: DataSet, asked: Config, listener: Listener) -> None:
    """Replace the model of frozen features by the sum of it and a network that was tuned.

    `items` are images before the encoder, or texts with their tokens; `asked` is the configuration before anything was
    chosen in it.
    """
    frozen = prepared.out_of_fold
    if frozen is None:
        raise UserError("fine-tuning begins with blend on frozen features; leave out --set train.use_all=false")
    labels, texts = prepared.data.train.labels, encoded_texts(prepared.data.train.inputs)
    parts = [torch.as_tensor(rows) for rows in split(labels, [1 / PARTS] * PARTS, prepared.config.seed).parts]
    out_of_fold = torch.empty_like(frozen)
    networks: list[EndToEnd] = []
    for number, held in enumerate(parts):
        learn = torch.cat([rows for other, rows in enumerate(parts) if other != number])
        training = start(prepared, items, asked, learn)
        follow(training, number, "images" if texts is None else "texts", listener)
        network = cast("EndToEnd", training.best.eval())
        found = logits(prepared, network, items.train.take(held))
        out_of_fold[held] = network.leveled(found, frozen[held])
        networks.append(network)
    share = share_that_pays(frozen, out_of_fold, labels.targets(), listener)
    prepared.refitted = {"parts": ["train"], "items": len(labels), "networks": PARTS, "share": share}
    if not share:  # the model and its card are those of a run without fine-tuning
        prepared.config = prepared.config.model_copy(update={"fine_tune": FineTune()})
        return
    prepared.out_of_fold = (1 - share) * frozen + share * out_of_fold
    test = prepared.logits(prepared.data.test)
    tuned = torch.stack([logits(prepared, network, items.test) for network in networks]).mean(0)
    prepared.test_logits = (1 - share) * test + share * tuned
    torch.manual_seed(prepared.config.seed)
    if texts is None:
        encoder = build_backbone(prepared.config.encoder, prepared.raw.shape)
    else:
        encoder = FirstColumns(texts.encoder.longest)
        described = cast("Describes", items.train.inputs).describe()
        prepared.raw = replace(prepared.raw, description=described, shape=items.input_shape)
    prepared.model = FineTuned(encoder, prepared.model, networks, share)


def follow(training: Training, number: int, things: str, listener: Listener) -> None:
    """Train one of the networks, and tell how far all of them are."""
    epochs, begun, first = training.settings.epochs, 0.0, 0.0
    for step in fit(training):
        listener.progress((number + step.share) / PARTS)
        if step.step == 1:  # it also warms up
            begun, first = time.monotonic(), step.share
        if step.step == FIRST_STEPS and number == 0:
            left = (time.monotonic() - begun) * (PARTS - step.share) / (step.share - first)
            listener.message(
                f"fine-tuning {PARTS} networks on {len(training.items):,} {things} each for {epochs} epochs: "
                f"about {minutes(left)}"
            )
        if step.ends_epoch:
            which = f"network {number + 1} of {PARTS}, epoch {step.epoch + 1} of {epochs}"
            listener.message(f"fine-tuning: {which}, loss {step.mean_loss:.4f}")


def start(prepared: Prepared, items: DataSet, asked: Config, learn: Tensor) -> Training:
    """The network with the head that logistic regression finds for its frozen features, ready to learn on."""
    config, inputs = prepared.config, prepared.data.train.inputs
    texts = encoded_texts(inputs)
    torch.manual_seed(config.seed)
    if texts is None:
        network = build_backbone(tuned_network(config.encoder), prepared.raw.shape)
        features = inputs.batch(learn)[:, -width_of(network) :]  # the last of several encoders
        hold_first(network, LEARNING)
    else:
        network = LastColumns(SentenceNetwork.load(texts.encoder.said), texts.encoder.longest)
        features = torch.cat([vectors_of(inputs, rows) for rows in learn.split(ROWS)])
    labels = prepared.data.train.labels.take(learn.numpy())
    known = Items(TensorInputs(features), labels)
    solved = config.model_copy(
        update={
            "encoder": Encoder(name="none"),
            "method": asked.method.model_copy(update={"name": "logistic_regression"}),
            "model": Chosen(name="auto"),
            "head": Chosen(name="auto"),
        }
    )
    data = DataSet(prepared.data.name, known, known, known.take(torch.arange(0)))
    first = assembled(begin(solved, prepared.fabric, SILENT, data, None, own_model=False), prepared.fabric, SILENT)
    assert first.solver is not None
    head = first.model.get_submodule("head")
    held_out = first.solver.solve(lambda: features_of(first.model, known, prepared.fabric, ROWS), head, SILENT)
    model = EndToEnd(network, first.model)
    prepared.fabric.to_device(model)
    given = {name: getattr(asked.train, name) for name in asked.train.model_fields_set}
    settings = Train(**{**(PHOTOGRAPHS if texts is None else TEXTS), **given})
    named = asked.fine_tune.model_dump()
    plain = named["name"] == "auto"
    named["name"] = METHOD if plain else named["name"]
    tuning = config.model_copy(update={"train": settings, "method": type(config.method)(**named)})
    method = build_learner(tuning, labels)
    if not isinstance(method, Method):
        raise UserError(f"fine_tune.name is {named['name']}; expected a method that learns by steps, such as focal")
    sampler = asked.sampler
    if sampler.name == "auto":
        by_class = (plain and texts is None) or method.sampler == SAMPLER["name"]
        sampler = Chosen(**SAMPLER) if by_class else Chosen(name=method.sampler)
    tuning = tuning.model_copy(update={"sampler": sampler})
    learning = replace(prepared.data, train=Items(items.train.take(learn).inputs, labels), truth=None)
    training = make_training(
        Prepared(tuning, learning, prepared.statistics, prepared.groups, prepared.raw, prepared.fabric, model), method
    )
    if plain and held_out is not None:
        stream = training.make_sampler(None)
        draws = torch.cat([stream.epoch(number) for number in range(DRAWS)])
        expect(model.classify, held_out, labels.targets().positive, draws)
    return training


def vectors_of(inputs: Inputs, rows: Tensor) -> Tensor:
    """[N, D] of texts as their encoder gives them, as long as the square root of D; words stand in other columns."""
    found = inputs.batch(rows)
    columns = blocks_of(inputs).get("encoder", range(found.shape[1]))
    return F.normalize(found[:, columns.start : columns.stop]) * math.sqrt(len(columns))


@torch.no_grad()
def expect(classify: nn.Linear, held_out: Tensor, positive: Tensor, draws: Tensor) -> None:
    """Shift the biases until the head expects each label as often as the plain loss will meet it.

    Logistic regression was balanced, and draws are not the items as they come. A network whose head expects something
    else learns that first, at the cost of its features. `held_out` [N, C] are logits of items that a head has not seen.
    """
    often = torch.bincount(draws, minlength=len(positive)).double()[:, None] / len(draws)
    wanted = (often * positive).sum(0).clamp(RAREST, 1 - RAREST)
    shift = torch.zeros_like(wanted)
    for _ in range(ROUNDS):
        expected = (often * (held_out + shift).sigmoid()).sum(0).clamp(RAREST, 1 - RAREST)
        shift += wanted.logit() - expected.logit()
    classify.bias.add_(shift.to(classify.bias))


def logits(prepared: Prepared, tuned: nn.Module, items: Items) -> Tensor:
    """[N, C] of the tuned network."""
    like = copy.copy(prepared)
    like.model, like.training = tuned, None
    return like.logits(items)


def share_that_pays(frozen: Tensor, tuned: Tensor, targets: Targets, listener: Listener) -> float:
    """How much the tuned networks count: what ranks the items best, by scores of models that never saw them."""
    targets = targets.assuming_negatives()  # what is unknown is mostly absent
    tried = {share: mean_precision((1 - share) * frozen + share * tuned, targets) for share in (0.0, *SHARES)}
    best = max(tried, key=lambda share: tried[share])
    means = f"frozen {100 * tried[0.0]:.1f}, fine-tuned {100 * mean_precision(tuned, targets):.1f}"
    end = f"together {100 * tried[best]:.1f} with a share of {best:g} for the tuned networks"
    end = end if best else "no sum of both is better, so the frozen model stays as it is"
    listener.message(f"mAP out of fold: {means}; {end}")
    return best


def mean_precision(scores: Tensor, targets: Targets) -> float:
    return float(torch.as_tensor(average_precision(scores, targets)).nanmean())


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
