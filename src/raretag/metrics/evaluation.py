"""Every number of a model on one set of items, ready for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from raretag.core.targets import Targets
from raretag.metrics import decisions, ranking
from raretag.metrics.average_precision import average_precision
from raretag.metrics.grouped import grouped_means, list_or_none, number_or_none

DEPTHS = (1, 3, 5)


def evaluate(
    logits: Tensor,
    targets: Targets,
    *,
    groups: Mapping[str, Tensor],
    training_positives: Tensor,
    thresholds: float | Tensor = 0.5,
    least_frequent: Sequence[int] = (),
) -> dict[str, Any]:
    """A dictionary of numbers, lists and None; None stands for "there was nothing to evaluate".

    logits              [N, C], not probabilities
    groups              class indices of head, medium, tail
    training_positives  [C], decides which classes are the least frequent
    thresholds          probabilities, one or [C]: a label is decided for where sigmoid(logit) > threshold
    least_frequent      numbers K of classes: averages over the K classes with the fewest training positives
    """
    ranks = ranking.RankingSums.of(logits, targets, deepest=max(DEPTHS))
    decided = decisions.decide(torch.sigmoid(logits.double()), thresholds)  # near 0.5, float32 makes ties
    counts = decisions.DecisionCounts.of(decided, targets)
    per_class = {
        "average_precision": average_precision(logits, targets),
        "f1": decisions.f1(counts).cpu(),
        "precision": decisions.precision(counts).cpu(),
        "recall": decisions.recall(counts).cpu(),
    }
    called = {"average_precision": "mAP", "f1": "F1", "precision": "precision", "recall": "recall"}
    rarest = {str(k): decisions.least_frequent(training_positives, k) for k in least_frequent}
    of_rarest = {called[name]: grouped_means(values, rarest) for name, values in per_class.items()}
    numbers = {
        "micro_F1": decisions.micro_f1(counts),
        "CP": decisions.macro_precision(counts),
        "CR": decisions.macro_recall(counts),
        "CF1": decisions.class_f1(counts),
        "OP": decisions.overall_precision(counts),
        "OR": decisions.overall_recall(counts),
        "OF1": decisions.micro_f1(counts),
        "exact_match": decisions.exact_match(counts),
        "hamming": decisions.hamming_loss(counts),
        "ranking_loss": ranking.ranking_loss(ranks),
        "coverage": ranking.coverage(ranks),
        **{f"P@{k}": ranking.precision_at(ranks, k) for k in DEPTHS},
        **{f"nDCG@{k}": ranking.ndcg_at(ranks, k) for k in DEPTHS},
    }
    excluded_rows = {"exact_match": int(counts.excluded_rows)}
    for k in DEPTHS:
        excluded_rows |= ranking.excluded_rows(ranks, k)
    return {
        **{called[name]: grouped_means(values, groups).as_dict() for name, values in per_class.items()},
        **{name: number_or_none(number) for name, number in numbers.items()},
        "least_frequent": {
            k: {
                **{name: number_or_none(means.groups[k]) for name, means in of_rarest.items()},
                "excluded": of_rarest["F1"].excluded[k],
            }
            for k in rarest
        },
        "per_class": {
            **{name: list_or_none(values) for name, values in per_class.items()},
            "positives": (counts.tp + counts.fn).tolist(),
        },
        "excluded_classes": torch.nonzero(~counts.evaluated).flatten().tolist(),
        "excluded_rows": excluded_rows,
        "items": len(logits),
    }
