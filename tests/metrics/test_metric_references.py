"""Decisions, ranking, propensity and hidden positives against scikit-learn and naive loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import decisions, partial_labels, ranking
from raretag.metrics.decisions import DecisionCounts, decide, least_frequent
from raretag.metrics.partial_labels import HiddenCounts
from raretag.metrics.ranking import (
    PropensityCounts,
    RankingSums,
    coverage,
    ndcg_at,
    precision_at,
    propensities,
    propensity_scored_precision_at,
    ranking_loss,
)
from raretag.metrics.scored import Scored
from support.scored_items import PROBLEMS, drawn, propensity

PER_CLASS = (decisions.precision, decisions.recall, decisions.f1)


# Decisions -----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.builds(drawn, st.integers(1, 30), st.integers(2, 6), st.integers(0, 10**6), unknown=st.just(0.0)))
def test_decisions_equal_scikit_learn_on_fully_observed_data(problem: Scored) -> None:
    truth, decided = problem.targets.value.numpy().astype(int), decide(problem.scores, 0.25)
    counts = DecisionCounts.of(decided, problem.targets)
    ours = np.stack([metric(counts).numpy() for metric in PER_CLASS])
    theirs = np.stack(sk.precision_recall_fscore_support(truth, decided.numpy(), zero_division=0)[:3])
    evaluated = truth.sum(0) > 0
    np.testing.assert_allclose(ours[:, evaluated], theirs[:, evaluated], atol=1e-12)
    assert np.isnan(ours[:, ~evaluated]).all()
    assert decisions.exact_match(counts) == pytest.approx(sk.accuracy_score(truth, decided.numpy()))
    assert decisions.hamming_loss(counts) == pytest.approx(sk.hamming_loss(truth, decided.numpy()))
    if evaluated.any():
        micro = sk.precision_recall_fscore_support(truth, decided.numpy(), average="micro", zero_division=0)[:3]
        overall = (decisions.overall_precision, decisions.overall_recall, decisions.micro_f1)
        np.testing.assert_allclose([metric(counts) for metric in overall], micro, atol=1e-12)
        cp, cr, macro = theirs[:, evaluated].mean(1)
        assert decisions.macro_f1(counts) == pytest.approx(macro)
        assert decisions.class_f1(counts) == pytest.approx(2 * cp * cr / (cp + cr) if cp + cr else 0.0)


@settings(max_examples=60, deadline=None)
@given(PROBLEMS)
def test_decisions_count_observed_entries_only(problem: Scored) -> None:
    decided, targets = decide(problem.scores, 0.0), problem.targets
    counts = DecisionCounts.of(decided, targets)
    for c in range(decided.shape[1]):
        seen = targets.observed[:, c]
        pairs = list(zip(decided[seen, c].tolist(), (targets.value[seen, c] == 1).tolist(), strict=True))
        expected = [pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
        assert [int(n[c]) for n in (counts.tp, counts.fp, counts.fn, counts.tn)] == expected
    rows = [
        (decided[n][seen] == (targets.value[n][seen] == 1)).all().item()
        for n, seen in enumerate(targets.observed)
        if seen.any()
    ]
    assert (int(counts.exact), int(counts.rows)) == (sum(rows), len(rows))
    assert int(counts.excluded_rows) == len(problem) - len(rows)


def test_a_class_without_predictions_has_precision_zero_and_one_without_positives_is_excluded() -> None:
    truth = Targets(torch.tensor([[1.0, 0.0, math.nan], [1.0, 0.0, math.nan]]), torch.tensor([[True, True, False]] * 2))
    counts = DecisionCounts.of(torch.tensor([[False, True, True], [False, False, True]]), truth)
    for metric in PER_CLASS:
        assert [f"{value:.0f}" for value in metric(counts).tolist()] == ["0", "nan", "nan"]
    assert decisions.macro_f1(counts) == 0.0
    assert decisions.class_f1(counts) == 0.0


def test_thresholds_may_differ_between_classes() -> None:
    scores = torch.tensor([[0.3, 0.3], [0.6, 0.6]])
    assert decide(scores, torch.tensor([0.2, 0.6])).tolist() == [[True, False], [True, False]]
    with pytest.raises(UserError, match="expected one for each"):
        decide(scores, torch.tensor([0.2, 0.6, 0.1]))


def test_the_least_frequent_classes_come_from_training_counts_and_ties_from_the_index() -> None:
    assert least_frequent(torch.tensor([5, 2, 9, 2, 2]), 2).tolist() == [1, 3]
    assert least_frequent(torch.tensor([5, 2, 9, 2, 2]), 9).tolist() == [1, 3, 4, 0, 2]


# Ranking -------------------------------------------------------------------------------------------------------------


def naive_ranking(scores: Tensor, targets: Targets, k: int) -> dict[str, list[float]]:
    """Row by row, label by label; ties against the model."""
    rows: dict[str, list[float]] = {"P": [], "nDCG": [], "coverage": [], "loss": []}
    for row, value, seen in zip(scores.tolist(), targets.value.tolist(), targets.observed.tolist(), strict=True):
        known = sorted((-s, y) for s, y, o in zip(row, value, seen, strict=True) if o)
        relevance = [y for _, y in known]
        positives, negatives = [-s for s, y in known if y == 1], [-s for s, y in known if y == 0]
        if len(known) >= k:
            rows["P"].append(sum(relevance[:k]) / k)
        if positives:
            ideal = sum(1 / math.log2(j + 2) for j in range(min(k, len(positives))))
            rows["nDCG"].append(sum(y / math.log2(j + 2) for j, y in enumerate(relevance[:k])) / ideal)
            rows["coverage"].append(sum(-s >= min(positives) for s, _ in known))
        if positives and negatives:
            wrong = sum(p <= n for p in positives for n in negatives)
            rows["loss"].append(wrong / (len(positives) * len(negatives)))
    return rows


@settings(max_examples=100, deadline=None)
@given(PROBLEMS, st.integers(1, 5))
def test_ranking_equals_naive_loops(problem: Scored, k: int) -> None:
    sums = RankingSums.of(problem.scores, problem.targets)
    ours = {
        "P": precision_at(sums, k),
        "nDCG": ndcg_at(sums, k),
        "coverage": coverage(sums),
        "loss": ranking_loss(sums),
    }
    rows = naive_ranking(problem.scores, problem.targets, k)
    for name, values in rows.items():
        assert ours[name] == pytest.approx(sum(values) / len(values) if values else math.nan, abs=1e-10, nan_ok=True)
    excluded = dict(zip(rows, (len(problem) - len(values) for values in rows.values()), strict=True))
    assert list(ranking.excluded_rows(sums, k).values()) == list(excluded.values())


@settings(max_examples=60, deadline=None)
@given(st.builds(drawn, st.integers(1, 30), st.integers(2, 6), st.integers(0, 10**6), unknown=st.just(0.0)))
def test_ranking_equals_scikit_learn_where_it_is_defined(problem: Scored) -> None:
    truth = problem.targets.value
    rows = (truth.sum(1) > 0) & (truth.sum(1) < truth.shape[1])
    if not rows.any():
        return
    sums = RankingSums.of(problem.scores, problem.targets)
    pair = truth[rows].numpy(), problem.scores[rows].numpy()
    assert ranking_loss(sums) == pytest.approx(sk.label_ranking_loss(*pair), abs=1e-10)
    assert coverage(RankingSums.of(problem.scores[rows], problem.targets[rows])) == pytest.approx(
        sk.coverage_error(*pair)
    )


def test_ndcg_equals_scikit_learn_without_ties() -> None:
    scores = torch.rand(50, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    truth = (scores.roll(1, 1) > 0.6).float()
    rows = truth.sum(1) > 0
    sums = RankingSums.of(scores, Targets(truth, torch.ones(50, 8, dtype=torch.bool)))
    for k in (1, 3, 5):
        expected = sk.ndcg_score(truth[rows].numpy(), scores[rows].numpy(), k=k)
        assert ndcg_at(sums, k) == pytest.approx(expected, abs=1e-12)


def test_a_hidden_label_leaves_the_ranking_of_its_row() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6]])  # the hidden label stands between; counting it would change all four
    targets = Targets(torch.tensor([[0.0, math.nan, 1.0, 0.0]]), torch.tensor([[True, False, True, True]]))
    sums = RankingSums.of(scores, targets)
    assert ranking_loss(sums) == 0.5
    assert coverage(sums) == 2.0
    assert precision_at(sums, 2) == 0.5
    assert ndcg_at(sums, 2) == pytest.approx(1 / math.log2(3))
    first = Targets(torch.tensor([[math.nan, 1.0, 0.0, 0.0]]), torch.tensor([[False, True, True, True]]))
    assert coverage(RankingSums.of(scores, first)) == 1.0


def test_a_depth_that_was_not_counted_is_refused() -> None:
    problem = drawn(5, 4, 0)
    with pytest.raises(UserError, match="k = 6"):
        precision_at(RankingSums.of(problem.scores, problem.targets), 6)


# Propensity ----------------------------------------------------------------------------------------------------------


def test_propensities_follow_the_formula_and_rare_labels_have_small_ones() -> None:
    counts = torch.tensor([0, 1, 10, 1000])
    c = (math.log(5000) - 1) * 2.5**0.55
    expected = [1 / (1 + c * math.exp(-0.55 * math.log(n + 1.5))) for n in counts.tolist()]
    assert propensities(counts, 5000).tolist() == pytest.approx(expected)
    assert expected == sorted(expected)
    with pytest.raises(UserError, match="2 items"):
        propensities(counts, 2)


@settings(max_examples=60, deadline=None)
@given(PROBLEMS, st.integers(1, 5))
def test_propensity_scored_precision_equals_a_naive_loop(problem: Scored, k: int) -> None:
    p = propensity(problem.scores.shape[1])
    attained = attainable = 0.0
    for s, y, o in zip(problem.scores.tolist(), problem.targets.value.tolist(), problem.targets.observed, strict=True):
        known = [c for c in range(len(s)) if o[c]]
        ranked = sorted(known, key=lambda c: (-s[c], y[c], c))
        attained += sum(1 / p[c].item() for c in ranked[:k] if y[c])
        attainable += sum(sorted((1 / p[c].item() for c in known if y[c]), reverse=True)[:k])
    counts = PropensityCounts.of(problem.scores, problem.targets, p)
    expected = attained / attainable if attainable else math.nan
    assert propensity_scored_precision_at(counts, p, k) == pytest.approx(expected, abs=1e-12, nan_ok=True)


# Hidden positives ----------------------------------------------------------------------------------------------------


def test_recall_of_hidden_positives_counts_what_the_partial_labels_leave_out() -> None:
    truth = Targets(torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), torch.ones(3, 3).bool())
    seen = torch.tensor([[True, False, False], [False, False, False], [False, False, True]])
    scores = torch.tensor([[0.1, 0.9, 0.9], [0.9, 0.9, 0.9], [0.4, 0.2, 0.9]])
    counts = HiddenCounts.of(decide(scores, 0.3), truth, Targets(truth.value, seen))
    assert counts.hidden.tolist() == [2, 2, 0]
    assert partial_labels.hidden_recall(counts).tolist()[:2] == [1.0, 0.5]
    assert partial_labels.hidden_recall(counts)[2].isnan()
    assert partial_labels.micro_hidden_recall(counts) == 0.75


def test_first_places_are_the_accuracy_of_each_class():
    """With one label per item; ties and unknown labels beside it."""
    generator = torch.Generator().manual_seed(0)
    label, logits = torch.randint(4, (200,), generator=generator), torch.randn(200, 5, generator=generator)
    one_hot = torch.nn.functional.one_hot(label, 5).double()
    right = logits.argmax(1) == label
    expected = [float(right[label == c].double().mean()) for c in range(4)]
    found = ranking.first_places(logits, Targets(one_hot, torch.ones(200, 5, dtype=torch.bool)))
    assert found[:4].tolist() == pytest.approx(expected)
    assert found[4].isnan()
    tie = Targets(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[True, True, False]]))
    assert ranking.first_places(torch.tensor([[1.0, 1.0, 0.0]]), tie)[0] == 0.0  # a tie counts against the model
    assert ranking.first_places(torch.tensor([[1.0, 0.0, 2.0]]), tie)[0] == 1.0  # an unknown label leaves the list
