"""The share of marked positives, label by label: found where it varies, and used in fits, decisions and promises."""

import numpy as np
import pytest
import torch

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import SILENT
from raretag.core.targets import Targets
from raretag.data.arrays import from_arrays
from raretag.engine.run import run
from raretag.metrics.decision_cuts import MARKED, tune_out_of_fold
from raretag.metrics.label_frequency import LabelFrequency
from raretag.metrics.marked_shares import MarkedShares, likely_missing, log_ratios, marked_shares
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.promise import from_marks, from_marks_by_label
from raretag.suggestions.selection import pick

LABELS = 24


def world(seed: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits, truth, marks and shares: of the rarest label `low` is marked, of the most frequent one `high`."""
    generator = np.random.default_rng(seed)
    level = np.linspace(-6, -1, LABELS)
    z = generator.normal(size=(1500, LABELS)) * 3 + level
    truth = generator.random(z.shape) < 1 / (1 + np.exp(-2 * z))
    shares = np.linspace(low, high, LABELS)
    return z, truth, truth & (generator.random(z.shape) < shares), shares


def only_positives(marked: np.ndarray) -> Targets:
    return Targets(torch.from_numpy(marked).float(), torch.from_numpy(marked))


@pytest.mark.parametrize("seed", range(3))
def test_shares_that_rise_with_frequency_are_found_and_equal_ones_left_alone(seed: int) -> None:
    z, _, marked, shares = world(seed, 0.1, 0.9)
    found = marked_shares(torch.from_numpy(z), only_positives(marked))
    assert found is not None
    assert found.vary
    common = found.frequency.interval()[0]
    assert np.abs(found.shares() - shares).mean() < 0.8 * np.abs(common - shares).mean()
    assert np.all(np.diff(found.shares()[np.argsort(marked.sum(0))]) >= 0)
    *_, marked, _ = world(seed, 0.5, 0.5)
    alike = marked_shares(torch.from_numpy(z), only_positives(marked))
    assert alike is not None
    assert not alike.vary


def test_nothing_is_estimated_from_negatives_single_marks_or_few_labels() -> None:
    z, _, marked, _ = world(0, 0.2, 0.8)
    both = Targets(torch.from_numpy(marked).float(), torch.ones(marked.shape, dtype=torch.bool))
    assert marked_shares(torch.from_numpy(z), both) is None
    single = np.zeros_like(marked)
    single[np.arange(len(z)), z.argmax(1)] = True
    assert marked_shares(torch.from_numpy(z), only_positives(single)) is None
    ratio, doubt = log_ratios(z[:, :4], marked[:, :4], np.ones_like(marked[:, :4]))
    assert (ratio.any(), doubt) == (False, 0.0)


def certain(share: float, ratio: list[float], doubt: float = 0.0) -> MarkedShares:
    one = np.ones(1)
    frequency = LabelFrequency(share * one, one, np.array([[0.0, 1.0, -60.0]]), False, one)
    return MarkedShares(frequency, np.array(ratio), doubt)


def test_the_shares_are_the_common_one_with_other_odds() -> None:
    assert certain(0.5, [0.0, np.log(3), -np.log(4)]).shares() == pytest.approx([0.5, 0.75, 0.2])
    assert certain(0.5, [0.0, np.log(3)]).shares(0.75) == pytest.approx([0.75, 0.9])


def test_an_unmarked_entry_is_left_out_when_it_is_sooner_positive_than_not() -> None:
    z, _, marked, _ = world(1, 0.2, 0.8)
    targets = only_positives(marked)
    few, many = (likely_missing(torch.from_numpy(z), targets, certain(share, [0.0] * LABELS)) for share in (0.9, 0.3))
    assert few.sum() < many.sum()
    assert not (few & ~many).any()
    assert not (many & targets.observed).any()
    lowest = torch.where(many, torch.from_numpy(z), torch.inf).amin(0)
    assert not (~targets.observed & (torch.from_numpy(z) > lowest) & ~many).any()  # those with the highest scores


def test_a_promise_adds_up_the_labels() -> None:
    passed = np.array([300, 100, 0])
    alike, other = certain(0.5, [0.0, 0.0, 0.0]), certain(0.5, [np.log(3), -np.log(4), 9.0])
    assert from_marks_by_label(1000, passed, alike) == from_marks(1000, 400, alike.frequency)
    expected = (300 * 0.25 / 0.75 + 100 * 0.8 / 0.2) / 1000
    assert from_marks_by_label(1000, passed, other).expected == pytest.approx(expected, abs=0.01)
    narrow = from_marks_by_label(1000, passed, other)
    wide = from_marks_by_label(1000, passed, certain(0.5, [np.log(3), -np.log(4), 9.0], doubt=0.3))
    assert wide.high - wide.low > narrow.high - narrow.low


def test_suggestions_turn_to_labels_of_which_more_is_missing() -> None:
    for seed in range(2):
        z, truth, marked, _ = world(seed, 0.1, 0.9)
        rare, right = [], []
        for by_label in (False, True):
            entries = estimate_probabilities(z, only_positives(marked), by_label=by_label)
            picked = pick(entries.t, entries.candidates, 400, 0.0)
            rare.append((picked.label < LABELS // 2).mean())
            right.append(truth[picked.row, picked.label].mean())
        assert rare[1] > rare[0]
        assert right[1] >= right[0]
        assert "higher for frequent labels" in entries.assumption()


def test_decisions_by_one_share_for_all_are_those_of_the_number() -> None:
    z, _, marked, _ = world(2, 0.3, 0.7)
    logits, targets = torch.from_numpy(z), only_positives(marked)
    number = tune_out_of_fold(logits, targets, {})
    each = tune_out_of_fold(logits, targets, {}, marked=torch.full((LABELS,), MARKED))
    assert number.tuned.thresholds.equal(each.tuned.thresholds)
    fewer = tune_out_of_fold(logits, targets, {}, marked=torch.full((LABELS,), 0.2))
    assert fewer.decided.sum() > number.decided.sum()  # more is missing, so more is decided for


def test_a_run_leaves_out_what_is_probably_missing() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(500, 8)).astype(np.float32)
    truth = x @ generator.normal(size=(8, 6)) > 1.5
    y = np.where(truth & (generator.random(truth.shape) < 0.5), 1.0, np.nan)
    runs = {}
    for marking in ("assumed", "by_label"):
        config = compose(None, ["method.name=blend", "effort=quick", f"data.marking={marking}"])
        runs[marking] = run(config, None, data=from_arrays(x, y), listener=SILENT)
    assert "marking" not in runs["assumed"].record.data.notes
    note = runs["by_label"].record.data.notes["marking"]
    assert note["left_out"] > 0
    assert 0 < note["share"] < 1
    with pytest.raises(UserError, match=r"data\.marking"):
        run(compose(None, ["method.name=ridge_centroids", "data.marking=alike"]), None, data=from_arrays(x, y))
