"""Scores from outside in a run (`data.prior`): beliefs about unknown labels, and evidence beside the model's logits.

Their scale comes from the training labels (metrics/outside.py). A method that learns by steps and has no completion of
its own learns unknown labels as the scores believe them to be; scores that say nothing believe next to nothing. When
the model is there, the items that it was not fitted to decide how much the scores count beside its logits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from raretag.core.listener import Listener
from raretag.core.method import Method
from raretag.core.objective import BelievedBefore
from raretag.core.solver import Solver
from raretag.data.dataset import DataSet
from raretag.data.prior import Prior
from raretag.metrics.outside import Outside, weighed

if TYPE_CHECKING:
    from raretag.engine.prepare import Prepared


def believe(data: DataSet, prior: Prior, learner: Method | Solver, listener: Listener) -> Outside:
    """Before training: what the scores mean; a method that learns by steps learns what they say of unknown labels."""
    scores, targets = prior.of(data.train.labels), data.train.labels.targets()
    outside = Outside.fitted(scores, targets)
    if isinstance(learner, Method) and learner.objective.complete.plain and bool(targets.unknown.any()):
        beliefs = outside.posterior(scores, targets)
        learner.objective.complete = BelievedBefore(beliefs, learner.objective.complete)
        share = float((targets.unknown & ~beliefs.isnan()).sum() / targets.unknown.sum())
        listener.message(f"prior: {share:.0%} of the unknown labels are trained towards what the scores say")
    return outside


def weigh(prepared: Prepared, logits: Tensor, listener: Listener) -> None:
    """After training: how much the scores count beside the logits of validation items, which the model never saw."""
    prior, outside, data = prepared.data.prior, prepared.outside, prepared.data
    if prior is None or outside is None:
        return
    if not data.held_out and prepared.out_of_fold is None:
        listener.message("prior: not used beside the model, as no items are held out to see whether it helps")
        return
    labels = data.validation.labels
    if prepared.out_of_fold is not None:
        logits, labels = prepared.out_of_fold, data.train.labels
    scores = prior.of(labels)
    found = weighed(outside, logits, scores, labels.targets())
    prepared.outside = found.outside
    if prepared.out_of_fold is not None:
        prepared.out_of_fold = found.outside.added(prepared.out_of_fold, scores)
    if prepared.first_validation is not None:
        prepared.first_validation = found.outside.added(prepared.first_validation, prior.of(data.validation.labels))
    note = {"from": prior.name, "share": found.chosen, "mAP_by_share": found.tried}
    prepared.data = replace(data, notes={**data.notes, "prior": note})
    if found.outside.counts:
        listener.message(f"prior: {found.sentence}")
    else:
        listener.message("prior: not used beside the model, as it does not help on items that the model did not see")
