"""Every number of a model on one set of items, ready for JSON, and means over groups of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import decisions, ranking
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import list_or_none, mean_of_known, number_or_none

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
    """All numbers of a model, as a dictionary for JSON; None stands for "there was nothing to evaluate".

    logits              [N, C], not probabilities
    groups              class indices of head, medium, tail
    training_positives  [C], decides which classes are the least frequent
    thresholds          probabilities, one or [C]: a label is decided for where sigmoid(logit) > threshold
    least_frequent      numbers K of classes: averages over the K classes with the fewest training positives

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> found = raretag.metrics.evaluate(logits, targets, groups={}, training_positives=torch.tensor([9, 2]))
    >>> found["mAP"]["total"], found["micro_F1"], found["items"]
    (0.9166666666666666, 0.6666666666666666, 3)
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
    short = {"average_precision": "mAP", "f1": "F1", "precision": "precision", "recall": "recall"}
    rarest = {str(k): decisions.least_frequent(training_positives, k) for k in least_frequent}
    of_rarest = {short[name]: grouped_means(values, rarest) for name, values in per_class.items()}
    if rarest:
        of_rarest["first"] = grouped_means(ranking.first_places(logits, targets), rarest)
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
        **{short[name]: grouped_means(values, groups).as_dict() for name, values in per_class.items()},
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


_RESERVED = ("total", "mean_of_groups", "excluded")


@dataclass(frozen=True, slots=True)
class GroupedMeans:
    """Means over all classes and over groups; NaN stands for "there was nothing to average", never for 0."""

    total: float
    groups: dict[str, float]
    mean_of_groups: float  # over the groups that have classes; NaN if one of these has no class that can be evaluated
    excluded: dict[str, int]  # how many classes of "total" and of each group could not be evaluated

    def as_dict(self) -> dict[str, Any]:
        """For JSON: one number per group, None for NaN."""
        means = {"total": self.total, **self.groups, "mean_of_groups": self.mean_of_groups}
        return {**{name: number_or_none(mean) for name, mean in means.items()}, "excluded": dict(self.excluded)}


def grouped_means(per_class: Tensor, groups: Mapping[str, Tensor]) -> GroupedMeans:
    """Means of `per_class` [C], in which NaN marks a class that could not be evaluated. Groups hold class indices.

    >>> import torch, raretag
    >>> means = raretag.metrics.grouped_means(torch.tensor([0.5, 0.25]), {"tail": torch.tensor([1])})
    >>> means.total, means.groups
    (0.375, {'tail': 0.25})
    """
    _check_names(groups)
    members = {name: per_class[classes.to(per_class.device)] for name, classes in groups.items()}
    means = {name: mean_of_known(values) for name, values in members.items()}
    filled = [means[name] for name, values in members.items() if len(values)]
    excluded = {name: int(values.isnan().sum()) for name, values in {"total": per_class, **members}.items()}
    return GroupedMeans(
        total=mean_of_known(per_class),
        groups=means,
        mean_of_groups=sum(filled) / len(filled) if filled else math.nan,
        excluded=excluded,
    )


def means_of_columns(per_class: Tensor, groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The means of `grouped_means` for each column of [C, R]: "total", the groups and "mean_of_groups", each [R]."""
    _check_names(groups)
    members = {name: per_class[classes.to(per_class.device)] for name, classes in groups.items()}
    means = {name: torch.nanmean(values, 0) for name, values in members.items()}
    filled = [means[name] for name, values in members.items() if len(values)]
    over_groups = torch.stack(filled).mean(0) if filled else torch.full_like(per_class[0], math.nan)
    return {"total": torch.nanmean(per_class, 0), **means, "mean_of_groups": over_groups}


def _check_names(groups: Mapping[str, Tensor]) -> None:
    for name in groups:
        if name in _RESERVED:
            raise UserError(f"a group is called '{name}', which the table of means uses itself; choose another name")
