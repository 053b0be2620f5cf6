"""Thresholds and calibration: what they reach, what they ignore, and that few positives do not mislead them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import decisions
from raretag.metrics.calibration import Ranked, best_cuts, calibration_error, class_calibration_error
from raretag.metrics.tuning import tune


def drawn(items, rates, seed=0, slope=1.0, shift=0.0):
    """Logits of which sigmoid(slope z + shift) is the true probability, and labels drawn by it."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(items, len(rates), generator=generator) * 2 + torch.tensor(rates)
    y = (torch.rand(items, len(rates), generator=generator) < torch.sigmoid(slope * z + shift)).float()
    return z, Targets(y, torch.ones_like(y, dtype=torch.bool))


def groups(labels):
    return {"head": torch.arange(labels // 2), "tail": torch.arange(labels // 2, labels)}


def naive(scores, targets, goal, wanted):
    """Every cut between two neighbours, one after the other."""
    observed = targets.observed.nonzero().flatten().tolist()
    if not observed:
        return math.nan
    values = sorted({float(scores[row]) for row in observed}, reverse=True)
    places = [(a + b) / 2 for a, b in itertools.pairwise(values)] + [values[-1] - 1e-3]
    total, found = sum(float(targets.value[row]) for row in observed), []
    for place in places:
        chosen = [row for row in observed if float(scores[row]) > place]
        hits = sum(float(targets.value[row]) for row in chosen)
        found.append((hits, len(chosen), place))
    if goal == "f1":
        return max(found, key=lambda one: 2 * one[0] / (one[1] + total))[2] if total else math.inf
    if goal == "precision":
        good = [place for hits, chosen, place in found if hits >= wanted * chosen - 1e-9]
        return good[-1] if good else math.inf
    good = [place for hits, _, place in found if hits >= wanted * total - 1e-9]
    return good[0] if total else math.inf


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0.0, 1.0, None])), min_size=1, max_size=12),
    st.sampled_from([("f1", None), ("precision", 0.6), ("recall", 0.7)]),
)
def test_cuts_are_those_of_a_naive_search(rows, asked):
    scores = torch.tensor([[float(score)] for score, _ in rows])
    observed = torch.tensor([[state is not None] for _, state in rows])
    value = torch.tensor([[math.nan if state is None else state] for _, state in rows])
    ranked = Ranked.of(scores, observed, torch.nan_to_num(value) > 0.5)
    found = float(best_cuts(ranked, ranked.positive.double(), *asked))
    wanted = naive(scores[:, 0], Targets(value[:, 0], observed[:, 0]), *asked)
    assert found == pytest.approx(wanted, abs=1e-6, nan_ok=True)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([math.nan, 1.0, -100.0]))
def test_what_is_stored_under_an_unknown_label_changes_nothing(seed, stored):
    z, targets = drawn(40, [0.0, -2.0, -3.0], seed)
    observed = torch.rand(z.shape, generator=torch.Generator().manual_seed(seed)) < 0.7
    plain = tune(z, Targets(targets.value, observed), groups(3))
    other = tune(z, Targets(torch.where(observed, targets.value, stored), observed), groups(3))
    assert torch.equal(plain.thresholds, other.thresholds)
    assert torch.equal(plain.scale, other.scale)
    assert torch.equal(plain.shift, other.shift)


def test_wrong_probabilities_are_calibrated_on_new_items():
    rates = [0.0, -1.0, -2.0, -3.0]
    z, targets = drawn(2000, rates, 1, slope=0.5, shift=-1.0)
    tuned = tune(z, targets, groups(4))
    new, truth = drawn(2000, rates, 2, slope=0.5, shift=-1.0)
    before, after = new.sigmoid(), tuned.calibrated(new).sigmoid()
    assert calibration_error(after, truth) < 0.25 * calibration_error(before, truth)
    assert (class_calibration_error(after, truth) < class_calibration_error(before, truth)).all()
    assert (tuned.scale - 0.5).abs().max() < 0.15


def test_probabilities_that_are_right_stay_nearly_as_they_are():
    z, targets = drawn(500, [-1.0, -2.0, -4.0], 3)
    after = tune(z, targets, groups(3)).calibrated(z).sigmoid()
    assert (after - z.sigmoid()).abs().max() < 0.1


def test_rare_labels_are_cut_better_than_by_their_own_few_positives():
    """Macro F1 of labels with about three validation positives each, against the best cut of each label alone."""
    rates = [-1.0] * 10 + [-6.0] * 40
    z, targets = drawn(300, rates, 4, shift=-0.5)
    new, truth = drawn(4000, rates, 5, shift=-0.5)
    tuned = tune(z, targets, {"head": torch.arange(10), "tail": torch.arange(10, 50)})
    ranked = Ranked.of(z, targets.observed, targets.value > 0.5)
    alone = best_cuts(ranked, ranked.positive.double(), "f1")

    def tail_f1(scores, cuts):
        counts = decisions.DecisionCounts.of(scores > cuts, truth)
        return float(decisions.f1(counts)[10:].nanmean())

    ours = tail_f1(tuned.calibrated(new).sigmoid(), tuned.thresholds)
    assert ours > tail_f1(new.double(), alone) + 0.02
    assert ours > tail_f1(new.sigmoid(), torch.full((50,), 0.5))


@pytest.mark.parametrize(("goal", "wanted"), [("precision", 0.7), ("recall", 0.9)])
def test_a_wanted_share_is_reached_on_new_items(goal, wanted):
    rates = [0.0, 0.5, -0.5, -1.0]
    z, targets = drawn(3000, rates, 6)
    new, truth = drawn(3000, rates, 7)
    tuned = tune(z, targets, groups(4), goal=goal, wanted=wanted)
    counts = decisions.DecisionCounts.of(tuned.calibrated(new).sigmoid() > tuned.thresholds, truth)
    reached = (decisions.precision if goal == "precision" else decisions.recall)(counts)
    assert (reached - wanted).abs().max() < 0.04


def test_a_goal_out_of_reach_means_never():
    z, targets = drawn(500, [-4.0, -4.0], 8, slope=0.01)
    tuned = tune(z, targets, groups(2), goal="precision", wanted=0.99)
    assert tuned.notes["out_of_reach"] == 2
    assert tuned.thresholds.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("items", [0, 1, 2, 7])
def test_few_items_give_finite_thresholds(items):
    z, targets = drawn(items, [0.0, -2.0, -2.0], 9)
    observed = targets.observed.clone()
    observed[:, 2] = False  # nothing is known of the last label
    tuned = tune(z, Targets(targets.value, observed), groups(3))
    for values in (tuned.thresholds, tuned.scale, tuned.shift):
        assert values.shape == (3,)
        assert values.isfinite().all()
    assert ((tuned.thresholds >= 0) & (tuned.thresholds <= 1)).all()


def test_calibration_error_is_that_of_hand_made_bins():
    p = torch.tensor([[0.1], [0.3], [0.6], [0.8]])
    targets = Targets(torch.tensor([[0.0], [1.0], [1.0], [1.0]]), torch.ones(4, 1, dtype=torch.bool))
    assert calibration_error(p, targets, bins=2) == pytest.approx((abs(0.4 - 1) + abs(1.4 - 2)) / 4)
    assert math.isnan(calibration_error(p, Targets(targets.value, ~targets.observed)))


def test_a_misunderstood_goal_is_refused():
    z, targets = drawn(10, [0.0], 0)
    for goal, wanted in (("f1", 0.5), ("precision", None), ("accuracy", 0.5), ("recall", 1.5)):
        with pytest.raises(UserError):
            tune(z, targets, {}, goal=goal, wanted=wanted)
