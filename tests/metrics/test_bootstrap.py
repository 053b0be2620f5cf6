"""Weighted metrics against scikit-learn, and the bootstrap against a loop that really draws the items."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.decisions import DecisionCounts, decide, f1
from raretag.metrics.evaluation import grouped_means
from raretag.metrics.intervals import bootstrap, multiplicities, paired_difference, paired_differences, resampled
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import Scored
from raretag.metrics.weighted import WeightedAveragePrecision, WeightedF1
from support.scored_items import PROBLEMS, drawn

GROUPS = {"head": torch.tensor([0, 1]), "medium": torch.tensor([], dtype=torch.int64), "tail": torch.tensor([2, 3, 4])}
NAMES = ["total", "head", "medium", "tail", "mean_of_groups"]


def weighted_by_scikit_learn(problem: Scored, weight: np.ndarray, decided: Tensor | None = None) -> list[float]:
    """AP of each class, or F1 if there are decisions."""
    result = []
    for c in range(problem.scores.shape[1]):
        kept = problem.targets.observed[:, c].numpy() & (weight > 0)
        truth, w = problem.targets.value[:, c].numpy()[kept], weight[kept]
        if not truth.any():
            result.append(math.nan)
        elif decided is None:
            result.append(average_precision_score(truth, problem.scores[:, c].numpy()[kept], sample_weight=w))
        else:
            result.append(f1_score(truth, decided[:, c].numpy()[kept], sample_weight=w, zero_division=0.0))
    return result


@settings(max_examples=60, deadline=None)
@given(PROBLEMS, st.integers(0, 2**30), st.booleans())
def test_weighted_metrics_equal_scikit_learn(problem: Scored, seed: int, whole: bool) -> None:
    random = np.random.default_rng(seed)
    weights = random.poisson(1.0, (len(problem), 3)) * (1.0 if whole else random.random((len(problem), 3)))
    columns = torch.from_numpy(weights)
    decided = decide(problem.scores, 0.0)
    ours = WeightedAveragePrecision(problem.scores, problem.targets).of(columns)
    our_f1 = WeightedF1(decided, problem.targets).of(columns)
    for column in range(3):
        theirs = weighted_by_scikit_learn(problem, weights[:, column])
        np.testing.assert_allclose(ours[:, column], theirs, rtol=0, atol=1e-12)
        theirs = weighted_by_scikit_learn(problem, weights[:, column], decided)
        np.testing.assert_allclose(our_f1[:, column], theirs, rtol=0, atol=1e-12)


def test_weights_of_one_change_nothing_over_many_blocks_of_classes() -> None:
    chance = torch.Generator().manual_seed(0)
    scores = torch.randn(3000, 200, generator=chance).round(decimals=2)
    value = (torch.rand(3000, 200, generator=chance) < 0.02).float()
    targets = Targets(value, torch.rand(3000, 200, generator=chance) < 0.8)
    ours = WeightedAveragePrecision(scores, targets).of(torch.ones(3000, 1))[:, 0]
    torch.testing.assert_close(ours, average_precision(scores, targets), rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", ["mAP", "F1"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bootstrap_equals_drawing_items_and_evaluating_them(metric, seed: int) -> None:
    problem = drawn(60, 5, seed)
    resamples, thresholds = 40, torch.linspace(0.4, 0.6, 5, dtype=torch.float64)
    probabilities = torch.sigmoid(problem.scores.double())
    expected: dict[str, list[float]] = {name: [] for name in NAMES}
    for times in multiplicities(60, 0, resamples, seed).T:
        rows = torch.repeat_interleave(torch.arange(60), times)
        targets = problem.targets[rows]
        if metric == "mAP":
            per_class = average_precision(problem.scores[rows], targets)
        else:
            per_class = f1(DecisionCounts.of(decide(probabilities[rows], thresholds), targets))
        means = grouped_means(per_class, GROUPS)
        for name, mean in {"total": means.total, **means.groups, "mean_of_groups": means.mean_of_groups}.items():
            expected[name].append(mean)

    intervals = bootstrap(
        problem.scores,
        problem.targets,
        GROUPS,
        metric=metric,
        thresholds=thresholds,
        resamples=resamples,
        seed=seed,
        level=0.8,
    )
    assert list(intervals) == NAMES
    for name, interval in intervals.items():
        known = [mean for mean in expected[name] if not math.isnan(mean)]
        assert interval.resamples == len(known)
        if known:
            numbers = [np.mean(known), np.std(known, ddof=1), *np.quantile(known, [0.1, 0.9])]
            ours = [interval.mean, interval.standard_error, interval.low, interval.high]
            np.testing.assert_allclose(ours, numbers, rtol=0, atol=1e-12)
        else:
            assert set(interval.as_dict().values()) == {None, 0}  # the medium group has no classes


def test_the_value_is_that_of_the_items_themselves() -> None:
    problem = drawn(80, 5, 3)
    means = grouped_means(average_precision(problem.scores, problem.targets), GROUPS)
    intervals = bootstrap(problem.scores, problem.targets, GROUPS, resamples=5)
    assert intervals["total"].value == pytest.approx(means.total, abs=1e-12)
    assert intervals["tail"].value == pytest.approx(means.groups["tail"], abs=1e-12)


def test_a_resample_does_not_depend_on_how_many_are_drawn_with_it() -> None:
    together = multiplicities(50, 0, 9, seed=4)
    assert torch.equal(torch.cat([multiplicities(50, r, r + 1, seed=4) for r in range(9)], 1), together)
    assert together.sum(0).tolist() == [50] * 9
    assert not torch.equal(together, multiplicities(50, 0, 9, seed=5))
    measure = WeightedAveragePrecision(*_pair(drawn(50, 5, 0)))
    few, many = (resampled([[measure]], 50, {}, resamples=r, seed=4)[0]["total"] for r in (10, 600))
    torch.testing.assert_close(few, many[:11], rtol=0, atol=1e-12)


def test_every_item_is_drawn_about_as_often_as_the_others() -> None:
    often = multiplicities(10, 0, 4000, seed=0).double()
    assert often.mean(1).tolist() == pytest.approx([1.0] * 10, abs=0.08)  # 5 standard errors
    assert often.var().item() == pytest.approx(0.9, abs=0.05)  # binomial: 10 draws with chance 1/10


def _pair(problem: Scored) -> tuple[Tensor, Targets]:
    return problem.scores, problem.targets


@pytest.mark.parametrize("metric", ["mAP", "F1"])
def test_equal_models_differ_by_exactly_nothing(metric) -> None:
    scores, targets = _pair(drawn(40, 5, 1))
    for one, other in ((scores, scores.clone()), ([scores, -scores], [scores, -scores])):
        for name, found in paired_difference(one, other, targets, GROUPS, metric=metric, resamples=50).items():
            if name != "medium":
                assert (found.value, found.low, found.high, found.standard_error, found.p_value) == (0, 0, 0, 0, 1)


def test_a_difference_is_resampled_with_the_same_items_and_averaged_over_seeds() -> None:
    problem = drawn(60, 5, 2)
    chance = torch.Generator().manual_seed(0)
    a, b = ([problem.scores + torch.randn(60, 5, generator=chance) for _ in range(seeds)] for seeds in (3, 2))
    expected = []
    for times in multiplicities(60, 0, 30, 0).T:
        rows = torch.repeat_interleave(torch.arange(60), times)
        of_a, of_b = (
            np.mean([average_precision(z[rows], problem.targets[rows]).nanmean().item() for z in model])
            for model in (a, b)
        )
        expected.append(of_a - of_b)
    found = paired_difference(a, b, problem.targets, resamples=30)["total"]
    assert found.mean == pytest.approx(np.mean(expected), abs=1e-12)
    assert found.standard_error == pytest.approx(np.std(expected, ddof=1), abs=1e-12)
    fewer = min(sum(d <= 0 for d in expected), sum(d >= 0 for d in expected))
    assert found.p_value == pytest.approx(min(1.0, 2 * (fewer + 1) / 31))

    swapped = paired_difference(b, a, problem.targets, resamples=30)["total"]
    assert (swapped.value, swapped.p_value) == (-found.value, found.p_value)
    assert swapped.low == pytest.approx(-found.high, abs=1e-15)


def test_many_models_are_compared_pair_by_pair() -> None:
    scores, targets = _pair(drawn(40, 5, 6))
    models = {"good": scores + 2 * targets.positive, "plain": scores, "bad": [scores - targets.positive, scores]}
    found = paired_differences(models, targets, GROUPS, resamples=25, metric="F1", thresholds={"bad": [0.5, 0.6]})
    assert list(found) == [("good", "plain"), ("good", "bad"), ("plain", "bad")]
    alone = paired_difference(
        models["plain"], models["bad"], targets, GROUPS, resamples=25, metric="F1", thresholds_b=[0.5, 0.6]
    )
    assert {name: d.as_dict() for name, d in found["plain", "bad"].items()} == {
        n: d.as_dict() for n, d in alone.items()
    }


def test_pairing_sees_a_small_difference_that_two_intervals_hide() -> None:
    chance = torch.Generator().manual_seed(0)
    value = (torch.rand(400, 6, generator=chance) < 0.2).float()
    targets = Targets(value, torch.ones(400, 6, dtype=torch.bool))
    a = torch.randn(400, 6, generator=chance) + value
    b = a + 0.5 * torch.randn(400, 6, generator=chance)
    of_a, of_b = (bootstrap(z, targets, resamples=200)["total"] for z in (a, b))
    assert of_a.low < of_b.high  # the intervals overlap
    found = paired_difference(a, b, targets, resamples=200)["total"]
    assert found.standard_error < 0.8 * of_a.standard_error
    assert found.low > 0
    assert found.p_value < 0.05


def test_intervals_hold_the_true_value_about_as_often_as_they_say() -> None:
    """Macro F1 of labels drawn with known chances, of which a share of decisions is wrong: its true value is known."""
    chance = torch.Generator().manual_seed(0)
    held = 0
    for trial in range(100):
        value = (torch.rand(300, 4, generator=chance) < 0.3).float()
        flipped = torch.rand(300, 4, generator=chance) < 0.2
        decided = (value == 1) ^ flipped
        # tp = .3 * .8, fp = .7 * .2, fn = .3 * .2
        truth = 2 * 0.24 / (2 * 0.24 + 0.14 + 0.06)
        targets = Targets(value, torch.ones(300, 4, dtype=torch.bool))
        interval = bootstrap(decided.float() - 0.5, targets, metric="F1", resamples=200, level=0.9, seed=trial)["total"]
        held += interval.low <= truth <= interval.high
    assert 80 <= held <= 98  # 90 expected, standard deviation 3


def test_unknown_entries_never_matter() -> None:
    scores, targets = _pair(drawn(40, 5, 9))
    other = Targets(torch.where(targets.observed, targets.value, torch.nan), targets.observed)
    moved = torch.where(targets.observed, scores, scores + 1.0)
    for metric in ("mAP", "F1"):
        found = paired_difference(scores, moved, targets, GROUPS, metric=metric, resamples=20)["total"]
        assert (found.value, found.standard_error) == (0, 0)
        assert (
            bootstrap(scores, other, GROUPS, metric=metric, resamples=20)["total"]
            == (bootstrap(scores, targets, GROUPS, metric=metric, resamples=20)["total"])
        )


def test_mistakes_are_named() -> None:
    scores, targets = _pair(drawn(4, 3, 0))
    with pytest.raises(UserError, match="0 resamples of 4 items"):
        bootstrap(scores, targets, resamples=0)
    with pytest.raises(UserError, match="5 resamples of 0 items"):
        bootstrap(scores[:0], targets[slice(0)], resamples=5)
    with pytest.raises(UserError, match="level is 95"):
        bootstrap(scores, targets, level=95, resamples=5)
    with pytest.raises(UserError, match="metric is 'AUC'"):
        bootstrap(scores, targets, metric="AUC")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="2 thresholds for 1 seeds"):
        bootstrap(scores, targets, metric="F1", thresholds=[0.5, 0.5])
    with pytest.raises(UserError, match="without logits"):
        paired_difference([], scores, targets)
    with pytest.raises(UserError, match="do not match"):
        paired_difference(scores, scores[:2], targets)
    with pytest.raises(UserError, match="called 'total'"):
        bootstrap(scores, targets, {"total": torch.tensor([0])}, resamples=5)


def test_an_item_that_counts_twice_is_two_items():
    scores, positive = torch.rand(12, 3, dtype=torch.float64), (torch.arange(36).view(12, 3) % 4 == 0).float()
    base = torch.tensor([1.0, 2.0] * 6)
    twice = torch.repeat_interleave(torch.arange(12), base.long())

    def number(rows, base=None):
        measure = WeightedAveragePrecision(scores[rows], Targets(positive[rows], torch.ones(len(rows), 3).bool()))
        return resampled([[measure]], len(rows), {}, resamples=1, seed=0, base=base)[0]["total"][0]

    assert number(torch.arange(12), base) == pytest.approx(float(number(twice)))
    assert number(torch.arange(12), base) != pytest.approx(float(number(torch.arange(12))))
