"""Recall of hidden positives: does the model see what the annotation of its own training items left out?

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels" (COMIC), ICCV 2023, Table 2, reports a "recall for missing label settings" without defining it; this is the
plain reading. A positive is hidden if it is positive in the full truth, and unknown in the partial labels the model
was trained with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.decisions import check_decided
from raretag.metrics.scored import positives
from raretag.metrics.sums import Sums


@dataclass(frozen=True, slots=True)
class HiddenCounts(Sums):
    hidden: Tensor  # [C] int64
    found: Tensor  # [C] int64, hidden positives that the model decided for

    @classmethod
    def of(cls, decided: Tensor, truth: Targets, partial: Targets) -> HiddenCounts:
        """`decided` [N, C] bool, as `raretag.metrics.decisions.decide` makes it from scores and thresholds."""
        check_decided(decided, truth)
        if truth.value.shape != partial.value.shape:
            raise UserError(
                f"truth {tuple(truth.value.shape)} and partial labels {tuple(partial.value.shape)} differ in shape: "
                "expected the same items and labels in both"
            )
        hidden = positives(truth) & partial.unknown
        return cls(hidden.sum(0), (hidden & decided).sum(0))


def hidden_recall(counts: HiddenCounts) -> Tensor:
    """[C] float64, NaN for classes without a hidden positive."""
    return counts.found / counts.hidden.double()


def micro_hidden_recall(counts: HiddenCounts) -> float:
    """Over all hidden positives; NaN if nothing is hidden."""
    hidden = int(counts.hidden.sum())
    return int(counts.found.sum()) / hidden if hidden else math.nan
