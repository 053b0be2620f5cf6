"""Out-of-fold logits by solving again without each fold, for a solver that promised some and gave none."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from raretag.core.listener import SILENT
from raretag.core.solver import Solver
from raretag.engine.batches import features_of
from raretag.engine.prepare import Prepared
from raretag.labels.split import split

FOLDS = 5


def cross_fit(prepared: Prepared, solver: Solver) -> Tensor:
    """Logits [N, C] of the training items; the head and the solver stay as they are."""
    items, head = prepared.data.train, prepared.model.get_submodule("head")
    kept = copy.deepcopy(head.state_dict())
    folds = min(FOLDS, len(items))
    logits = torch.zeros(len(items), items.labels.labels)
    for rows in split(items.labels, [1.0 / folds] * folds, prepared.config.seed).parts:
        rest = items.take(torch.from_numpy(np.setdiff1d(np.arange(len(items)), rows)))
        held = torch.from_numpy(rows)
        copy.deepcopy(solver).solve(
            lambda rest=rest: features_of(  # type: ignore[misc]
                prepared.model, rest, prepared.fabric, 4 * prepared.config.train.batch_size
            ),
            head,
            SILENT,
        )
        logits[held] = prepared.logits(items.take(held))
    head.load_state_dict(kept)
    return logits
