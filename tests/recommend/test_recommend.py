"""A race of methods keeps to its budget, never sees test items, and prefers the simpler of equals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.data.arrays import from_arrays
from raretag.metrics.intervals import Difference
from raretag.recommend.candidates import candidates, entrants
from raretag.recommend.race import cost, is_tie, race, rarity, recommend

QUICK = ["train.epochs=2", "model.name=mlp", "model.width=8"]


def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(90, 4)).astype(np.float32)
    return from_arrays(x, (x[:, :3] + 0.3 * random.normal(size=(90, 3)) > 0.5).astype(np.float32))


def chosen(*labels):
    listed = {one.label: one for one in candidates(unknown=False, negatives=True, epochs=2)}
    return [(listed[label], compose(None, [*QUICK, *listed[label].changes])) for label in labels]


def test_the_better_method_wins_and_every_runner_has_an_interval():
    outcome = race(chosen("logistic regression", "BCE"), data(), minutes=50, folds=2)
    assert outcome.choice.label == "logistic regression"  # two epochs are too few for the other
    assert outcome.runners[0].behind.value == 0
    assert all(r.behind.low <= r.behind.value <= r.behind.high for r in outcome.runners)
    assert all(r.score == pytest.approx(outcome.runners[0].score + r.behind.value) for r in outcome.runners)


def test_without_time_one_method_still_runs_and_the_others_are_named():
    ticks = iter(range(0, 10**6, 100))
    outcome = race(chosen("logistic regression", "BCE"), data(), minutes=1, folds=2, clock=lambda: float(next(ticks)))
    assert [r.candidate.label for r in outcome.runners] == ["logistic regression"]
    assert any("BCE" in remark for remark in outcome.remarks)


def test_a_data_set_in_memory_gets_a_choice_and_messages():
    class Recorder(Listener):
        def __init__(self):
            self.lines = []

        def message(self, line):
            self.lines.append(line)

    ticks, recorder = iter(range(0, 10**6, 100)), Recorder()
    outcome = recommend(data(), QUICK, minutes=1, listener=recorder, clock=lambda: float(next(ticks)))
    assert outcome.choice.label == "logistic regression"
    assert recorder.lines[0] == "8 methods race for up to 1 minutes"


def test_a_simpler_method_is_preferred_only_within_noise_and_half_a_point():
    def behind(value, high):
        return Difference(value, value, 0.001, -1.0, high, 100, math.nan)

    assert is_tie(behind(-0.004, 0.001))
    assert not is_tie(behind(-0.004, -0.001))
    assert not is_tie(behind(-0.02, 0.01))


def test_methods_for_missing_labels_run_only_where_labels_are_missing():
    plain = {one.label for one in candidates(unknown=False, negatives=True, epochs=2)}
    missing = {one.label for one in candidates(unknown=True, negatives=False, epochs=2)}
    assert missing - plain == {"ignore likely", "pseudo-labels"}


def test_a_budget_must_be_positive():
    with pytest.raises(UserError, match="minutes"):
        race(chosen("BCE"), data(), minutes=0)


@pytest.mark.parametrize(("stretch", "epochs"), [(1.0, 20), (8.0, 2), (1000.0, 1)])
def test_class_aware_racers_see_as_many_items_as_the_others(stretch, epochs):
    listed = candidates(unknown=True, negatives=True, epochs=20, stretch=stretch)
    aware = {"BCE, class-aware", "ignore likely", "distribution-balanced"}
    last = {one.label: one.changes[-1] for one in listed if one.label in aware}
    assert last == dict.fromkeys(aware, f"train.epochs={epochs}")


def test_racers_are_chosen_by_what_is_known_of_the_labels():
    known, config = data(), compose(None, QUICK)
    assert [one.label for one in entrants(known, config)] == [
        one.label for one in candidates(unknown=False, negatives=True, epochs=2)
    ]
    x = np.ones((20, 2), dtype=np.float32)
    marked = from_arrays(x, np.where(np.eye(2)[np.arange(20) % 2] > 0, 1.0, np.nan))
    plain = next(one for one in entrants(marked, config) if one.label == "BCE")
    assert plain.changes == ("method.name=assume_negative",)


@pytest.mark.parametrize(("label", "ticks"), [("BCE", 40), ("logistic regression", 1)])
def test_the_cost_of_a_run_is_that_of_all_its_epochs(label, ticks):
    """The clock goes one tick each time it is read, which is once before and after each epoch."""
    one, _ = next(iter(chosen(label)))
    config = compose(None, [*QUICK, *one.changes, "train.epochs=40"])
    time, items = iter(range(100)), len(data().train)
    assert cost(config, data(), lambda: float(next(time))) == ticks / (items - items // 3)


def test_folds_are_pooled_by_ranks(monkeypatch):
    """A perfect model whose scale is another one in each fold is still perfect."""
    offsets = iter((0.0, 100.0, -100.0, 50.0, 7.0) * 9)

    def perfect(config, data, rows, listener):
        listener.epoch(None, {})
        listener.epoch(None, {})
        return data.train.labels.targets(torch.from_numpy(rows)).value * 5 + next(offsets)

    monkeypatch.setattr("raretag.recommend.race.train_without", perfect)
    outcome = race(chosen("BCE"), data(), minutes=50)
    assert outcome.runners[0].score == pytest.approx(1.0)
    assert outcome.folds == 5


def test_an_item_counts_as_its_labels_are_rare():
    labels = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
    n = labels.sum(0)
    expected = np.array([1 / n[0], 1 / n[0], (1 / n[0] + 1 / n[1]) / 2, 1 / n[0]])
    assert torch.allclose(rarity(csr_array(labels)), torch.from_numpy(expected / expected.mean()))
    assert torch.equal(rarity(csr_array(np.zeros((3, 2)))), torch.ones(3, dtype=torch.float64))
