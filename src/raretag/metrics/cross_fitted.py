"""Calibration and thresholds from out-of-fold logits: all training items, each scored by a model that never saw it.

Cuts are those of `decision_cuts`. Probabilities are calibrated as validation items would be (`calibration`), but for
labels without observed negatives: there an unmarked item is a positive now and then. With p the probability that an
item is marked and e the share of the positives that are, an unmarked item is one with probability

    (1 - e) / e  p / (1 - p)        Elkan and Noto, "Learning classifiers from only positive and unlabeled data", 2008

and counts as one to that part. What is measured on these items comes from the other folds, cuts and calibration alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.calibration import Counted, platt
from raretag.metrics.decision_cuts import Entries, checked_cuts
from raretag.metrics.tuning import FOLDS, PURPOSE, SPREADS, Tuned, calibrations


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """What a run decides by, and what that makes of items that neither the model nor the cuts were fitted to."""

    tuned: Tuned
    decided: Tensor  # [N, C] bool, by cuts from other folds
    calibrated: Tensor  # [N, C] float64 logits, calibrated on other folds


def tune_out_of_fold(logits: Tensor, targets: Targets, groups: Mapping[str, Tensor], *, seed: int = 0) -> CrossFitted:
    """Thresholds and calibration from out-of-fold logits [N, C] of the training items.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 0], [0, 0]])
    >>> logits = torch.tensor([[2.0, -1.0], [0.5, 0.3], [-1.0, 0.0]])
    >>> found = tune_out_of_fold(logits, targets, groups={})
    >>> found.decided.tolist(), float(found.tuned.thresholds[1])  # a label without positives is never decided for
    ([[True, False], [True, False], [False, False]], 1.0)
    """
    if logits.isnan().any():
        raise UserError("an out-of-fold logit is NaN: the solver is broken, and no threshold can repair it")
    logits, targets = logits.detach().cpu().double().clamp(-1e4, 1e4), targets.to("cpu")
    entries = Entries.of(targets)
    checked = checked_cuts(logits, entries, seed)
    notes = {
        "goal": "f1",
        "wanted": None,
        "fitted_to": "out of fold",
        "items": len(logits),
        **checked.notes(),
        "labels_without_negatives": int((entries.marked < 1).sum()),
        "out_of_reach": int(torch.isposinf(checked.cuts).sum()),
    }
    folds = min(FOLDS, len(logits))
    if folds < 2:
        same = torch.ones(logits.shape[1], dtype=torch.float64)
        return CrossFitted(Tuned(same, same * 0, torch.sigmoid(checked.cuts), notes), checked.decided, logits)
    fold = chance.permutation(len(logits), PURPOSE, seed) % folds
    counted = Counted.of(logits, Targets(entries.positive.double(), entries.counted), fold, folds)
    spread, pairs, pair = calibrations(with_missing(counted, entries.marked, groups), groups, folds, True)
    after = torch.empty_like(logits)
    for held, other in enumerate(pairs):
        after[fold == held] = logits[fold == held] * other[:, 0].exp() + other[:, 1]
    scale, shift = pair[:, 0].exp(), pair[:, 1]
    tuned = Tuned(
        scale, shift, torch.sigmoid(checked.cuts * scale + shift), {**notes, "folds": folds, "spread": spread}
    )
    return CrossFitted(tuned, checked.decided, after)


def with_missing(counted: Counted, marked: Tensor, groups: Mapping[str, Tensor]) -> Counted:
    """With the positives that are expected among unmarked items; `marked` [C] is the share that is marked."""
    if bool((marked == 1).all()):
        return counted
    pair = platt(counted, groups, SPREADS[1])
    p = torch.sigmoid(counted.logit * pair[:, 0].exp() + pair[:, 1])  # [BINS, C]
    missing = ((1 - marked) / marked * p / (1 - p).clamp(min=1e-9)).clamp(max=1)
    return replace(counted, positive=counted.positive + (counted.items - counted.positive) * missing)
