"""One table of all metrics, and what must hold for each of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import raretag
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import decisions, partial_labels, ranking
from raretag.metrics.decisions import DecisionCounts, decide
from raretag.metrics.evaluation import evaluate
from raretag.metrics.partial_labels import HiddenCounts
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.ranking import (
    PropensityCounts,
    RankingSums,
    coverage,
    ndcg_at,
    precision_at,
    propensity_scored_precision_at,
    ranking_loss,
)
from raretag.metrics.scored import Scored
from support.scored_items import PROBLEMS, drawn, propensity


@dataclass(frozen=True)
class Metric:
    count: Callable[[Tensor, Targets], Any]  # what is kept of a batch; merges with +
    read: Callable[[Any], dict[str, Any]]  # the numbers


def whole_evaluation(scored: Scored) -> dict[str, Any]:
    labels = scored.scores.shape[1]
    groups = {"head": torch.arange(0, labels, 2), "tail": torch.arange(1, labels, 2)}
    return evaluate(scored.scores, scored.targets, groups=groups, training_positives=torch.arange(labels))


def partial(targets: Targets) -> Targets:
    """Some labels of a data set, chosen by column so that every shard chooses alike."""
    return Targets(targets.value, targets.observed & (torch.arange(targets.value.shape[1]) % 2 == 0))


PER_CLASS = (decisions.precision, decisions.recall, decisions.f1)
OVER_CLASSES = (
    decisions.macro_precision,
    decisions.macro_recall,
    decisions.macro_f1,
    decisions.class_f1,
    decisions.overall_precision,
    decisions.overall_recall,
    decisions.micro_f1,
    decisions.exact_match,
    decisions.hamming_loss,
)
METRICS = {
    "average_precision": Metric(
        Scored, lambda scored: {"AP": average_precision(scored.scores, scored.targets).tolist()}
    ),
    "decisions": Metric(
        lambda scores, targets: DecisionCounts.of(decide(scores, 0.0), targets),
        lambda counts: {
            **{metric.__name__: metric(counts).tolist() for metric in PER_CLASS},
            **{metric.__name__: metric(counts) for metric in OVER_CLASSES},
            "excluded_rows": int(counts.excluded_rows),
        },
    ),
    "ranking": Metric(
        RankingSums.of,
        lambda sums: {
            **{f"P@{k}": precision_at(sums, k) for k in range(1, 6)},
            **{f"nDCG@{k}": ndcg_at(sums, k) for k in range(1, 6)},
            "coverage": coverage(sums),
            "loss": ranking_loss(sums),
            **ranking.excluded_rows(sums, 3),
        },
    ),
    "propensity": Metric(
        lambda scores, targets: PropensityCounts.of(scores, targets, propensity(scores.shape[1])),
        lambda counts: {
            f"PSP@{k}": propensity_scored_precision_at(counts, propensity(counts.hits.shape[1]), k) for k in (1, 3, 5)
        },
    ),
    "hidden": Metric(
        lambda scores, targets: HiddenCounts.of(decide(scores, 0.0), targets, partial(targets)),
        lambda counts: {
            "per_class": partial_labels.hidden_recall(counts).tolist(),
            "micro": partial_labels.micro_hidden_recall(counts),
        },
    ),
    "evaluation": Metric(Scored, whole_evaluation),
}


def bits(numbers: dict[str, Any]) -> str:
    """Equal text for equal floats, to the last bit; NaN equals NaN."""
    return json.dumps(numbers)


def measured(metric: Metric, scores: Tensor, targets: Targets) -> str:
    return bits(metric.read(metric.count(scores, targets)))


over_all_metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())


@over_all_metrics
@settings(max_examples=40, deadline=None)
@given(PROBLEMS)
def test_what_is_stored_under_an_unknown_label_changes_nothing(metric: Metric, problem: Scored) -> None:
    targets = problem.targets
    results = {
        measured(
            metric, problem.scores, Targets(torch.where(targets.observed, targets.value, stored), targets.observed)
        )
        for stored in (0.0, 1.0, -1.0, math.nan)
    }
    assert len(results) == 1


@over_all_metrics
@settings(max_examples=40, deadline=None)
@given(PROBLEMS, st.data())
def test_shards_add_up_to_the_whole(metric: Metric, problem: Scored, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(problem)), min_size=1, max_size=3)))
    starts, ends = [0, *cuts], [*cuts, len(problem)]
    shards = [metric.count(problem.scores[a:b], problem.targets[a:b]) for a, b in zip(starts, ends, strict=True)]
    total = shards[0]
    for shard in shards[1:]:
        total = total + shard
    assert bits(metric.read(total)) == measured(metric, problem.scores, problem.targets)


@over_all_metrics
@settings(max_examples=40, deadline=None)
@given(PROBLEMS, st.integers(0, 1000))
def test_the_order_of_rows_changes_nothing(metric: Metric, problem: Scored, seed: int) -> None:
    rows = torch.randperm(len(problem), generator=torch.Generator().manual_seed(seed))
    shuffled = measured(metric, problem.scores[rows], problem.targets[rows])
    assert shuffled == measured(metric, problem.scores, problem.targets)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - {"ranking"}))  # ranks are alike for all numbers of labels
def test_different_label_lists_do_not_merge(name: str) -> None:
    metric = METRICS[name]
    three, four = (drawn(6, labels, 0) for labels in (3, 4))
    with pytest.raises(UserError, match="cannot"):
        metric.count(three.scores, three.targets) + metric.count(four.scores, four.targets)


# All together --------------------------------------------------------------------------------------------------------


def test_evaluation_says_what_it_could_not_evaluate() -> None:
    logits = torch.tensor([[2.0, -1.0, 0.5, 1e-9], [-2.0, 1.0, 0.5, -1.0]])
    value = torch.tensor([[1.0, 0.0, math.nan, 1.0], [0.0, 0.0, math.nan, 0.0]])
    targets = Targets(value, torch.tensor([[True, True, False, True]] * 2))
    groups = {"head": torch.tensor([0, 1]), "medium": torch.tensor([], dtype=torch.int64), "tail": torch.tensor([2, 3])}
    result = evaluate(
        logits, targets, groups=groups, training_positives=torch.tensor([9, 8, 1, 1]), least_frequent=(1, 2)
    )
    json.dumps(result, allow_nan=False)
    excluded = {"total": 2, "head": 1, "medium": 0, "tail": 1}
    one = {"total": 1.0, "head": 1.0, "medium": None, "tail": 1.0, "mean_of_groups": 1.0, "excluded": excluded}
    assert result["mAP"] == result["F1"] == result["recall"] == one  # sigmoid(1e-9) is above one half
    nothing = dict.fromkeys(("mAP", "F1", "precision", "recall", "first"))
    assert result["least_frequent"]["1"] == {**nothing, "excluded": 1}
    assert result["least_frequent"]["2"]["F1"] == 1.0
    assert result["least_frequent"]["2"]["first"] == 0.0  # label 3 is second to label 0 in its only item
    assert result["excluded_classes"] == [1, 2]
    assert result["per_class"]["average_precision"] == [1.0, None, None, 1.0]
    assert result["per_class"]["positives"] == [1, 0, 0, 1]
    assert result["P@3"] == pytest.approx(1 / 3)
    assert result["P@5"] is None
    assert result["excluded_rows"]["P@5"] == 2
    assert result["excluded_rows"]["ranking_loss"] == 1
    assert result["exact_match"] == 0.5
    assert result["hamming"] == pytest.approx(1 / 6)
    assert result["items"] == 2


def test_metrics_are_reached_from_the_package() -> None:
    assert raretag.metrics.precision_curve.average_precision is average_precision
