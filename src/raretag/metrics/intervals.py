r"""How sure is a number, and how sure is a difference of two: the bootstrap over test items.

A resample draws N of the N test items with replacement; the metric of many resamples shows how much it depends on
which items were tested. For two models the same resamples are used (paired), so that items which are hard for both do
not hide a difference.

Paper and code (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, ch. 13 and 16)::

    interval = the (1 - level) / 2 and (1 + level) / 2 quantiles of the resampled numbers
    p        = 2 min(#{d* <= 0} + 1, #{d* >= 0} + 1) / (R + 1), at most 1

A class that has no observed positive in a resample leaves the means of that resample, as `evaluate` would have it.
With several seeds of a method the mean over its seeds is resampled: the interval is about the items, not the seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.decisions import decide
from raretag.metrics.evaluation import means_of_columns
from raretag.metrics.scored import number_or_none
from raretag.metrics.weighted import WeightedAveragePrecision, WeightedF1, WeightedMeasure

Metric = Literal["mAP", "F1"]
Cut = float | Tensor  # thresholds of one model, as `decide` takes them
Table = dict[str, Tensor]  # "total", each group, "mean_of_groups": [1 + R] float64, at 0 of the items themselves

_DRAWS_AT_ONCE = 2**21
_RESAMPLES_AT_ONCE = 256  # a row of weights then stays in the cache while segments are summed


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its bootstrap interval; NaN stands for "there was nothing to evaluate"."""

    value: float  # on the items themselves
    mean: float  # over resamples, as the next three
    standard_error: float
    low: float
    high: float
    resamples: int  # in which there was something to evaluate

    def as_dict(self) -> dict[str, Any]:
        """For JSON: None for NaN."""
        return {name: number_or_none(number) for name, number in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Difference(Interval):
    """The difference of two models, its interval and its p-value."""

    p_value: float  # two-sided, of "there is no difference"; never 0


def bootstrap(
    logits: Tensor | Sequence[Tensor],
    targets: Targets,
    groups: Mapping[str, Tensor] | None = None,
    *,
    metric: Metric = "mAP",
    thresholds: Cut | Sequence[Cut] = 0.5,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Intervals of mAP or macro F1: "total", one for each group of classes, and "mean_of_groups".

    logits      [N, C] of one model, or a list of those of several seeds, whose mean is then the number
    thresholds  for F1: probabilities, one or [C]; or a list of those, one for each seed

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> raretag.metrics.bootstrap(logits, targets, resamples=100)["total"].value
    0.9166666666666666
    """
    model = _measures(logits, targets, metric, thresholds)
    table = resampled([model], len(targets), groups or {}, resamples=resamples, seed=seed)[0]
    return {name: Interval(**_summary(numbers, level)) for name, numbers in table.items()}


def paired_difference(
    logits_a: Tensor | Sequence[Tensor],
    logits_b: Tensor | Sequence[Tensor],
    targets: Targets,
    groups: Mapping[str, Tensor] | None = None,
    *,
    metric: Metric = "mAP",
    thresholds_a: Cut | Sequence[Cut] = 0.5,
    thresholds_b: Cut | Sequence[Cut] = 0.5,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Difference]:
    """The number of a minus that of b, each a mean over its seeds. Both were tested on the same items.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> difference = raretag.metrics.paired_difference(logits, -logits, targets, resamples=100)["total"]
    >>> round(difference.value, 4), difference.resamples
    (0.25, 96)
    """
    return paired_differences(
        {"a": logits_a, "b": logits_b},
        targets,
        groups,
        metric=metric,
        thresholds={"a": thresholds_a, "b": thresholds_b},
        resamples=resamples,
        level=level,
        seed=seed,
    )["a", "b"]


def paired_differences(
    models: Mapping[str, Tensor | Sequence[Tensor]],
    targets: Targets,
    groups: Mapping[str, Tensor] | None = None,
    *,
    metric: Metric = "mAP",
    thresholds: Mapping[str, Cut | Sequence[Cut]] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[tuple[str, str], dict[str, Difference]]:
    """The difference of each two models, first minus second. Each model is resampled once, not once per pair.

    p-values are those of one question each: correct for many of them (Holm).

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> models = {"a": logits, "b": -logits, "c": logits + 1}
    >>> list(raretag.metrics.paired_differences(models, targets, resamples=10))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    cuts = thresholds or {}
    measures = [_measures(logits, targets, metric, cuts.get(name, 0.5)) for name, logits in models.items()]
    tables = resampled(measures, len(targets), groups or {}, resamples=resamples, seed=seed)
    pairs = itertools.combinations(zip(models, tables, strict=True), 2)
    return {
        (a, b): {name: difference_of(of_a[name] - of_b[name], level) for name in of_a} for (a, of_a), (b, of_b) in pairs
    }


def resampled(
    models: Sequence[Sequence[WeightedMeasure]],
    items: int,
    groups: Mapping[str, Tensor],
    *,
    resamples: int,
    seed: int,
    base: Tensor | None = None,
) -> list[Table]:
    """For each model, a list of its seeds, the mean number of its seeds: on the items, then on each resample.

    `base` [N]: how much each item counts, if not all the same.
    """
    if items < 1 or resamples < 1:
        raise UserError(f"{resamples} resamples of {items} items: expected at least one of both")
    parts = [
        [_mean_of_seeds([means_of_columns(one.of(weights), groups) for one in model]) for model in models]
        for weights in _weights(items, resamples, seed, base)
    ]
    return [
        {name: torch.cat([tables[model][name] for tables in parts]) for name in parts[0][model]}
        for model in range(len(models))
    ]


def multiplicities(items: int, start: int, stop: int, seed: int) -> Tensor:
    """[N, stop - start]: how often resamples `start` to `stop` draw each item. A draw depends on its key alone."""
    resample = torch.arange(start, stop)[:, None]
    item = (chance.uniform(seed, resample, torch.arange(items)) * items).long()  # [R, N]
    width = stop - start
    return torch.bincount((item * width + resample - start).flatten(), minlength=items * width).view(items, width)


def _weights(items: int, resamples: int, seed: int, base: Tensor | None = None) -> Iterator[Tensor]:
    exact = torch.float32 if items < 2**24 and base is None else torch.float64  # sums of weights are integers up to N
    each = 1.0 if base is None else base[:, None].to(exact)
    yield torch.ones(items, 1, dtype=exact) * each
    step = min(_RESAMPLES_AT_ONCE, max(1, _DRAWS_AT_ONCE // items))
    for start in range(0, resamples, step):
        yield multiplicities(items, start, min(start + step, resamples), seed).to(exact) * each


def _measures(
    logits: Tensor | Sequence[Tensor], targets: Targets, metric: Metric, thresholds: Cut | Sequence[Cut]
) -> list[WeightedMeasure]:
    seeds = [logits] if isinstance(logits, Tensor) else list(logits)
    if not seeds:
        raise UserError("a model without logits: expected those of one seed at least")
    if metric == "mAP":
        return [WeightedAveragePrecision(one, targets) for one in seeds]
    if metric != "F1":
        raise UserError(f"metric is {metric!r}; expected one of {', '.join(map(repr, get_args(Metric)))}")
    cuts = [thresholds] * len(seeds) if isinstance(thresholds, float | int | Tensor) else list(thresholds)
    if len(cuts) != len(seeds):
        raise UserError(f"{len(cuts)} thresholds for {len(seeds)} seeds: expected one for all or one for each")
    return [WeightedF1(decide(torch.sigmoid(z.double()), cut), targets) for z, cut in zip(seeds, cuts, strict=True)]


def _mean_of_seeds(tables: list[Table]) -> Table:
    return {name: torch.stack([table[name] for table in tables]).mean(0) for name in tables[0]}


def difference_of(differences: Tensor, level: float = 0.95) -> Difference:
    """The summary of [1 + R] differences, of which the first is that of the items themselves."""
    drawn = differences[1:]
    known = drawn[~drawn.isnan()]
    fewer = min(int((known <= 0).sum()), int((known >= 0).sum()))
    p_value = min(1.0, 2 * (fewer + 1) / (len(known) + 1)) if len(known) else math.nan
    return Difference(**_summary(differences, level), p_value=p_value)


def _summary(numbers: Tensor, level: float) -> dict[str, Any]:
    """The fields of an interval from [1 + R] numbers, of which the first is that of the items themselves."""
    if not 0 < level < 1:
        raise UserError(f"level is {level:g}; expected a number between 0 and 1, such as 0.95")
    drawn = numbers[1:].numpy()
    known = drawn[~np.isnan(drawn)]
    ends = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else [math.nan, math.nan]
    return {
        "value": float(numbers[0]),
        "mean": float(known.mean()) if len(known) else math.nan,
        "standard_error": float(known.std(ddof=1)) if len(known) > 1 else math.nan,
        "low": float(ends[0]),
        "high": float(ends[1]),
        "resamples": len(known),
    }
