"""Training again on all labelled items (`train.refit`): once validation has said how long, its items teach too.

Where labels are rare, the positives of a validation part are worth more than most choices of a loss. The first fit
keeps its validation part: from it come the number of epochs (the best one where `train.patience` is set, else all of
them), the thresholds, the calibration and every validation number. The second fit begins anew, with the same seed, on
training and validation items, and is the model that is tested and shipped. So nothing is measured on items that taught.

It takes as many epochs as the first, not as many steps: the learning rate is a function of the share of epochs that is
done, and what ends training in time is how often a model has seen the same items, which is a number of epochs.

A run that is resumed after the first fit begins the second one anew: it is not saved on its way.
"""

from __future__ import annotations

from raretag.config.settings import Config, Encoder
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.method import Method
from raretag.core.solver import Solver
from raretag.data.dataset import DataSet
from raretag.engine.checkpoint import best_epoch
from raretag.engine.fit import fit, stage_of
from raretag.engine.prepare import Prepared, prepare


def with_refit_decided(config: Config, data: DataSet, learner: Method | Solver, *, brought: bool) -> Config:
    """`train.refit` as true or false: `auto` says yes for feature vectors.

    `brought`: model or method are objects of the caller's, which cannot be made anew for other items. Where training
    labels were hidden on purpose, those of validation items are not, so these must not teach.
    """
    asked = config.train.refit
    possible = data.held_out and data.truth is None and not brought and isinstance(learner, Method)
    if asked is True and not possible and isinstance(learner, Method):
        why = "the model or the method is an object" if brought else "no validation items are held out"
        why = "training labels were hidden on purpose" if data.truth is not None else why
        raise UserError(f"train.refit is true, but {why}: there is nothing to train again on; leave it out")
    decided = possible and (asked is True or (asked == "auto" and len(data.input_shape) == 1))
    return config.model_copy(update={"train": config.train.model_copy(update={"refit": decided})})


def epochs_of(prepared: Prepared, history: list[dict[str, object]]) -> int:
    """How long the first fit says: up to its best epoch where it stopped by that."""
    assert prepared.training is not None
    settings = prepared.training.settings
    if settings.patience is None:
        return settings.epochs
    begin = stage_of(prepared.training.method, settings, settings.epochs - 1)[1][0]  # the last stage is the model
    return begin + best_epoch(history[begin:]) + 1


def fit_again(prepared: Prepared, history: list[dict[str, object]], listener: Listener) -> None:
    """Replace the trained model by one of all items; scores of the validation items stay those of the first."""
    epochs = epochs_of(prepared, history)
    prepared.first_validation = prepared.logits(prepared.data.validation)
    everything = prepared.data.all_teaching()
    config = prepared.config.model_copy(update={"encoder": Encoder(name="none")})  # the items are behind it already
    again = prepare(config, prepared.fabric, data=everything)
    assert again.training is not None
    listener.message(
        f"training again on all {len(everything.train):,} items for {epochs} epochs, the number that validation chose"
    )
    listener.progress(0.0)
    for step in fit(again.training):
        listener.progress(min(1.0, step.share * again.training.settings.epochs / epochs))
        if step.ends_epoch and step.epoch + 1 == epochs:
            break
    prepared.model, prepared.training, prepared.statistics = again.model, again.training, again.statistics
    prepared.refitted = {"parts": ["train", "validation"], "items": len(everything.train), "epochs": epochs}
