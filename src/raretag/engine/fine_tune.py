"""Fine-tuning an image network (`--fine-tune`): first a classifier of frozen features, then the network from there.

1. The default has been fitted to frozen features of all items: every item has a score of a model that never saw it.
2. A tenth of the items is held out. On the frozen features of the others, balanced logistic regression is solved; it is
   the head that the network starts with.
3. The last layers and the head learn with the method that was asked for, or else the plain loss and class-aware draws,
   at a rate that rises and then falls, on images that are cropped, mirrored and coloured at random; a moving average of
   the weights is kept.
4. Scores of both are added up. The held-out items say whether that pays; where it does harm, the frozen model stays.

Thresholds, calibration and validation numbers come from the held-out items alone: neither part of the sum saw them.
A run that is resumed begins anew.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from raretag.config.settings import Chosen, Config, Encoder, Train
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.method import Method
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet, Items, TensorInputs
from raretag.engine.batches import features_of
from raretag.engine.fit import Training, fit
from raretag.engine.prepare import Prepared, assembled, begin, build_learner, make_training
from raretag.labels.split import split
from raretag.metrics.precision_curve import average_precision
from raretag.models.assemble import build_backbone, width_of
from raretag.models.fine_tuned import EndToEnd, FineTuned, hold_first, tuned_network

HELD = 0.1  # of the training items
LEARNING = 0.75  # of the network's weights, the last ones: less than half of its work
SHARE = 0.5  # of the tuned network's scores
METHOD = "assume_negative"
SAMPLER: dict[str, Any] = {"name": "class_aware", "reduce": None}  # rare labels take their turn, too
DEFAULTS: dict[str, Any] = {
    "epochs": 4,
    "learning_rate": 1e-5,  # of the head, which is solved already: more of it unlearns what the strength was chosen for
    "backbone_rate": 10.0,
    "weight_decay": 0.01,
    "warmup": 0.1,
    "clip": 1.0,
    "average": 0.98,
}
ROWS = 256  # feature vectors that are looked at together
FIRST_STEPS = 4  # after which the time of the whole is told


def fine_tune(prepared: Prepared, images: DataSet, asked: Config, listener: Listener) -> None:
    """Replace the model of frozen features by the sum of it and a network that was tuned.

    `images` are the items before the encoder, `asked` the configuration before anything was chosen in it.
    """
    if prepared.out_of_fold is None:
        raise UserError("fine-tuning begins with blend on frozen features; leave out --set train.use_all=false")
    labels = prepared.data.train.labels
    learn, held = (torch.as_tensor(rows) for rows in split(labels, [1 - HELD, HELD], prepared.config.seed).parts)
    training = start(prepared, images, asked, learn)
    epochs, begun, first = training.settings.epochs, 0.0, 0.0
    for step in fit(training):
        listener.progress(step.share)
        if step.step == 1:  # it also warms up
            begun, first = time.monotonic(), step.share
        if step.step == FIRST_STEPS:
            left = (time.monotonic() - begun) * (1 - step.share) / (step.share - first)
            listener.message(f"fine-tuning on {len(learn):,} images for {epochs} epochs: about {minutes(left)}")
        if step.ends_epoch:
            listener.message(f"fine-tuning: epoch {step.epoch + 1} of {epochs}, loss {step.mean_loss:.4f}")
    tuned = training.best.eval()
    validation = Items(prepared.data.train.take(held).inputs, labels.take(held.numpy()))
    scores = {
        "held": (prepared.out_of_fold[held], logits(prepared, tuned, images.train.take(held))),
        "test": (prepared.logits(prepared.data.test), logits(prepared, tuned, images.test)),
    }
    share = share_that_pays(*scores["held"], validation, listener)
    prepared.first_validation, prepared.test_logits = (
        (1 - share) * frozen + share * fine for frozen, fine in scores.values()
    )
    prepared.data = replace(prepared.data, validation=validation)
    torch.manual_seed(prepared.config.seed)
    encoder = build_backbone(prepared.config.encoder, prepared.raw.shape)
    prepared.model = FineTuned(encoder, prepared.model, tuned, share)
    prepared.refitted = {"parts": ["train"], "items": len(labels), "fine_tuned_on": len(learn), "share": share}


def start(prepared: Prepared, images: DataSet, asked: Config, learn: Tensor) -> Training:
    """The network with the head that logistic regression finds for its frozen features, ready to learn on."""
    config = prepared.config
    chosen = tuned_network(config.encoder)
    torch.manual_seed(config.seed)
    network = build_backbone(chosen, prepared.raw.shape)
    columns = slice(-width_of(network), None)  # the last of several encoders
    labels = prepared.data.train.labels.take(learn.numpy())
    features = prepared.data.train.inputs.batch(learn)[:, columns]
    items = Items(TensorInputs(features), labels)
    solved = config.model_copy(
        update={
            "encoder": Encoder(name="none"),
            "method": asked.method.model_copy(update={"name": "logistic_regression"}),
            "model": Chosen(name="auto"),
            "head": Chosen(name="auto"),
        }
    )
    data = DataSet(prepared.data.name, items, items, items.take(torch.arange(0)))
    first = assembled(begin(solved, prepared.fabric, SILENT, data, None, own_model=False), prepared.fabric, SILENT)
    assert first.solver is not None
    head = first.model.get_submodule("head")
    first.solver.solve(lambda: features_of(first.model, items, prepared.fabric, ROWS), head, SILENT)
    hold_first(network, LEARNING)
    model = prepared.fabric.to_device(EndToEnd(network, first.model))
    given = {name: getattr(asked.train, name) for name in asked.train.model_fields_set}
    settings = Train(**{**DEFAULTS, **given})
    named = asked.fine_tune.model_dump()
    plain = named["name"] == "auto"
    named["name"] = METHOD if plain else named["name"]
    tuning = config.model_copy(update={"train": settings, "method": type(config.method)(**named)})
    method = build_learner(tuning, labels)
    if not isinstance(method, Method):
        raise UserError(f"fine_tune.name is {named['name']}; expected a method that learns by steps, such as focal")
    sampler = asked.sampler
    if sampler.name == "auto":
        sampler = Chosen(**SAMPLER) if plain or method.sampler == SAMPLER["name"] else Chosen(name=method.sampler)
    tuning = tuning.model_copy(update={"sampler": sampler})
    learning = replace(prepared.data, train=Items(images.train.take(learn).inputs, labels), truth=None)
    return make_training(
        Prepared(tuning, learning, prepared.statistics, prepared.groups, prepared.raw, prepared.fabric, model), method
    )


def logits(prepared: Prepared, tuned: nn.Module, items: Items) -> Tensor:
    """[N, C] of the tuned network."""
    like = copy.copy(prepared)
    like.model, like.training = tuned, None
    return like.logits(items)


def share_that_pays(frozen: Tensor, tuned: Tensor, held: Items, listener: Listener) -> float:
    """How much the tuned network counts: a half, unless held-out items say that the sum is worse than the frozen."""
    targets = held.labels.targets()
    if not bool(targets.negative.any()):  # what is unknown is mostly absent
        targets = Targets(targets.positive, torch.ones_like(targets.observed))
    found = {}
    for name, scores in (("frozen", frozen), ("fine-tuned", tuned), ("both", (1 - SHARE) * frozen + SHARE * tuned)):
        found[name] = torch.as_tensor(average_precision(scores, targets)).double()
    change = (found["both"] - found["frozen"]).nan_to_num()
    error = float(change.std()) / max(1.0, len(change) ** 0.5)
    pays = float(change.mean()) >= -error
    means = ", ".join(f"{name} {100 * float(values.nanmean()):.1f}" for name, values in found.items())
    end = "their scores are added up" if pays else "so the frozen model stays as it is"
    listener.message(f"mAP of {len(held):,} held-out items: {means}; {end}")
    return SHARE if pays else 0.0


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
