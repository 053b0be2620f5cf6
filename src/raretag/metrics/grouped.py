"""Means over all classes, and over the head, the medium and the tail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raretag.core.errors import UserError

_RESERVED = ("total", "mean_of_groups", "excluded")


@dataclass(frozen=True, slots=True)
class GroupedMeans:
    """NaN stands for "there was nothing to average", never for 0."""

    total: float
    groups: dict[str, float]
    mean_of_groups: float  # over the groups that have classes; NaN if one of these has no class that can be evaluated
    excluded: dict[str, int]  # how many classes of "total" and of each group could not be evaluated

    def as_dict(self) -> dict[str, Any]:
        """For JSON: one number a group, None for NaN."""
        means = {"total": self.total, **self.groups, "mean_of_groups": self.mean_of_groups}
        return {**{name: number_or_none(mean) for name, mean in means.items()}, "excluded": dict(self.excluded)}


def grouped_means(per_class: Tensor, groups: Mapping[str, Tensor]) -> GroupedMeans:
    """Means of `per_class` [C], in which NaN marks a class that could not be evaluated. Groups hold class indices."""
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


def mean_of_known(values: Tensor) -> float:
    """The mean of what is not NaN; NaN if there is nothing."""
    return float(torch.nanmean(values.double()))


def number_or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def list_or_none(values: Tensor) -> list[float | None]:
    return [number_or_none(value) for value in values.tolist()]
