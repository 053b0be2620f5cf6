"""Honest numbers on a test set of which some labels are unknown: observed, bounds, and an estimate with an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import bounds, decisions
from raretag.metrics.average_precision import average_precision
from raretag.metrics.corrected import METRICS, Observed, estimates
from raretag.metrics.grouped import mean_of_known, number_or_none

Numbers = dict[str, Any]
_WIDTH = 1.96  # deviations: 95 %


def partial_truth(
    logits: Tensor,
    targets: Targets,
    *,
    thresholds: float | Tensor = 0.5,
    kept: float | None = None,
    draws: int = 200,
    seed: int = 0,
) -> Numbers:
    """For each metric `observed`, `bounds`, `estimate` and `interval`; None where nothing can be said.

    kept    P(observed | positive) of every label, if it is known; else observation is taken not to depend on the state,
            which needs observed negatives
    draws   of the bootstrap
    """
    if kept is not None and not 0 < kept <= 1:
        raise UserError(f"kept is {kept}; expected the share of the true positives that are observed, above 0 up to 1")
    decided = decisions.decide(torch.sigmoid(logits.double()), thresholds)
    counts = decisions.DecisionCounts.of(decided, targets)
    seen = {
        "mAP": mean_of_known(average_precision(logits, targets)),
        "macro_F1": decisions.macro_f1(counts),
        "micro_precision": decisions.overall_precision(counts),
        "micro_recall": decisions.overall_recall(counts),
        "micro_F1": decisions.micro_f1(counts),
    }
    of_ap, of_class = bounds.average_precision_bounds(logits, targets), bounds.decision_bounds(decided, targets)
    micro = bounds.micro_bounds(decided, targets)
    ends = {
        "mAP": (mean_of_known(of_ap.low), mean_of_known(of_ap.high)),
        "macro_F1": (mean_of_known(of_class["F1"].low), mean_of_known(of_class["F1"].high)),
        **{f"micro_{name}": pair for name, pair in micro.items()},
    }
    value, replicates = estimates(Observed.of(logits, decided, targets), kept, draws, seed)
    found = {
        name: {
            "observed": number_or_none(seen[name]),
            "bounds": [number_or_none(end) for end in ends[name]],
            **_estimate(value[name], replicates[:, place]),
        }
        for place, name in enumerate(METRICS)
    }
    positive = targets.observed & (targets.value == 1)
    return {
        "observed_share": float(targets.observed.double().mean()) if targets.observed.numel() else None,
        "classes_without_observed_positive": int((~positive.any(0)).sum()),
        "assumption": _assumption(kept, bool((targets.observed & ~positive).any())),
        **found,
    }


def _estimate(value: float, replicates: np.ndarray[Any, np.dtype[np.float64]]) -> Numbers:
    known = replicates[~np.isnan(replicates)]
    if np.isnan(value) or len(known) < 2:
        return {"estimate": None, "interval": None}
    reach = _WIDTH * float(known.std(ddof=1))
    value = min(max(value, 0.0), 1.0)
    return {"estimate": value, "interval": [max(value - reach, 0.0), min(value + reach, 1.0)]}


def _assumption(kept: float | None, negatives: bool) -> str:
    if kept is not None:
        return f"a positive was observed with probability {kept:g}, whatever its score (told, not checked)"
    if negatives:
        return "whether a label was observed does not depend on its state or its score"
    return "only positives were observed: without the share that is kept, recall alone can be estimated"
