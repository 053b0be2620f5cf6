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
from raretag.recommend.candidates import Candidate, candidates, entrants
from raretag.recommend.outcome import Outcome, Runner
from raretag.recommend.race import chosen as chosen_of
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
    assert outcome.choice is None  # one method is no race
    assert outcome.not_run == ("BCE",)
    assert outcome.seconds > 60
    assert outcome.command("my data.csv", ["seed=1"]) == "raretag train --data 'my data.csv' --set seed=1"


def test_a_data_set_in_memory_gets_a_choice_and_messages():
    class Recorder(Listener):
        def __init__(self):
            self.lines = []

        def message(self, line):
            self.lines.append(line)

    ticks, recorder = iter(range(0, 10**6, 100)), Recorder()
    outcome = recommend(data(), QUICK, minutes=1, listener=recorder, clock=lambda: float(next(ticks)))
    methods = len(entrants(data(), compose(None, QUICK)))
    assert [r.candidate.label for r in outcome.runners] == ["logistic regression"]
    assert len(outcome.not_run) == methods - 1
    assert recorder.lines[0] == f"{methods} methods race for up to 1 minutes"


def test_a_simpler_method_is_preferred_only_within_noise_and_half_a_point():
    def behind(value, high):
        return Difference(value, value, 0.001, -1.0, high, 100, math.nan)

    assert is_tie(behind(-0.004, 0.001))
    assert not is_tie(behind(-0.004, -0.001))
    assert not is_tie(behind(-0.02, 0.01))


A, B, C, D = (Candidate(label, (), f"the idea of {label}") for label in "ABCD")
E = Candidate("E", (), "the idea of E", default=True)
CLEAR, NEAR = (-0.10, -0.15, -0.05), (-0.02, -0.06, 0.01)  # a difference to the leader, and its interval


def outcome_of(*ran, choice=A, folds=3, not_run=(), seconds=None):
    """`ran`: a method, its difference to the leader with its interval, and the folds in which it ran."""
    runners = [
        Runner(one, some, 1.0, 0.5 + value, Difference(value, value, 0.01, low, high, 200, math.nan))
        for one, (value, low, high), some in ran
    ]
    return Outcome(runners, choice, 300, folds, False, [], not_run, seconds)


LEADS = (A, (0.0, 0.0, 0.0), 3)
SENTENCES = {
    "recommended: A, clearly ahead of the other method. Its idea: the idea of A.": outcome_of(LEADS, (B, CLEAR, 1)),
    "recommended: A, clearly ahead of the 2 others. Its idea: the idea of A.": outcome_of(
        LEADS, (B, CLEAR, 1), (C, CLEAR, 3)
    ),
    "recommended: A, which leads, but not clearly ahead of C. Its idea: the idea of A.": outcome_of(
        LEADS, (C, NEAR, 3), (B, CLEAR, 1)
    ),
    "recommended: B, the simplest within half a point of the leader, A, and not clearly worse. "
    "Its idea: the idea of B.": outcome_of(LEADS, (B, (-0.004, -0.02, 0.01), 3), choice=B),
    "recommended: E, the default for feature vectors, of which A, the leader, is not clearly ahead. "
    "Its idea: the idea of E.": outcome_of(LEADS, (E, NEAR, 3), choice=E),
    "recommended after 2 of 3 folds: A, which leads, but not clearly ahead of B. Its idea: the idea of A. "
    "Time was too short (not all folds were run): the whole race takes about 2 min (--minutes 2).": outcome_of(
        (A, (0.0, 0.0, 0.0), 2), (B, NEAR, 2), seconds=61
    ),
    "recommended after 1 of 3 folds: A, clearly ahead of the other method that ran. Its idea: the idea of A. "
    "Time was too short (there was no time for C and D): the whole race takes about 10 min (--minutes 10).": outcome_of(
        (A, (0.0, 0.0, 0.0), 1), (B, CLEAR, 1), not_run=("C", "D"), seconds=600
    ),
    "no recommendation: only A ran, in 1 of 3 folds, which is not a race. "
    "Time was too short (there was no time for B): the whole race takes about 7 min (--minutes 7).": outcome_of(
        (A, (0.0, 0.0, 0.0), 1), choice=None, not_run=("B",), seconds=400
    ),
}


@pytest.mark.parametrize(
    ("ran", "choice"),
    [
        ((LEADS, (E, NEAR, 3)), E),
        ((LEADS, (E, CLEAR, 3)), A),
        ((LEADS, (E, CLEAR, 1), (B, (-0.004, -0.02, 0.01), 3)), B),
        (((E, (0.0, 0.0, 0.0), 3), (B, (-0.004, -0.02, 0.01), 3)), E),
    ],
)
def test_only_a_clear_lead_replaces_the_default(ran, choice):
    outcome = outcome_of(*ran)
    simplest_first = sorted(outcome.runners, key=lambda r: "BAE".index(r.candidate.label))
    assert chosen_of(simplest_first, outcome.runners[0].candidate.label) == choice


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_say_no_more_than_the_intervals(sentence):
    outcome = SENTENCES[sentence]
    assert outcome.reason() == sentence
    assert outcome.as_dict("x")["reason"] == sentence


class Slow:
    """Trainings that take the given minutes, and models that are right for a share of the items."""

    def __init__(self, minutes, right):
        self.minutes, self.right, self.now = minutes, right, 0.0

    def clock(self):
        return self.now

    def train(self, config, data, rows, listener):
        name = config.method.name
        for _ in range(2):
            self.now += 30 * self.minutes[name] * (1 - len(rows) / len(data.train))
            listener.epoch(None, {})
        random = np.random.default_rng(len(rows))
        known = random.random((len(rows), 1)) < self.right[name]
        value = data.train.labels.targets(torch.from_numpy(rows)).value
        return torch.where(torch.from_numpy(known), value, torch.from_numpy(random.random(value.shape)).float())


FIRST, SECOND = "logistic_regression", "binary_cross_entropy"


@pytest.mark.parametrize(
    ("minutes", "budget", "said"),
    [
        ({FIRST: 2, SECOND: 2}, 1, "no recommendation: only logistic regression ran, in 1 of 3 folds"),
        ({FIRST: 2, SECOND: 2}, 60, "recommended: logistic regression, clearly ahead of the other method"),
    ],
)
def test_a_race_that_gets_the_time_it_asked_for_is_run_to_its_end(monkeypatch, minutes, budget, said):
    def run(minutes_of_race):
        slow = Slow(minutes, {FIRST: 0.9, SECOND: 0.1})
        monkeypatch.setattr("raretag.recommend.race.train_without", slow.train)
        return race(chosen("logistic regression", "BCE"), data(), minutes=minutes_of_race, folds=3, clock=slow.clock)

    outcome = run(budget)
    assert outcome.reason().startswith(said)
    assert (outcome.seconds is None) == (budget == 60)
    if outcome.seconds is not None:
        again = run(outcome.seconds / 60)
        assert again.seconds is None
        assert again.choice.label == "logistic regression"


def test_a_method_that_ran_out_of_time_is_not_called_beaten(monkeypatch):
    slow = Slow({FIRST: 0.1, SECOND: 4}, {FIRST: 0.6, SECOND: 0.6})
    monkeypatch.setattr("raretag.recommend.race.train_without", slow.train)
    outcome = race(chosen("logistic regression", "BCE"), data(), minutes=8, folds=3, clock=slow.clock)
    assert {r.candidate.label: r.folds for r in outcome.runners} == {"logistic regression": 3, "BCE": 2}
    assert outcome.reason().startswith("recommended: logistic regression, which leads, but not clearly ahead of BCE")
    assert "Time was too short (not all folds were run)" in outcome.reason()


def test_a_slow_method_does_not_take_the_time_of_the_others(monkeypatch):
    slow = Slow({FIRST: 0.1, SECOND: 4, "asymmetric": 0.1}, {FIRST: 0.6, SECOND: 0.9, "asymmetric": 0.6})
    monkeypatch.setattr("raretag.recommend.race.train_without", slow.train)
    racers = chosen("logistic regression", "BCE", "asymmetric")
    outcome = race(racers, data(), minutes=2.5, folds=3, clock=slow.clock)
    assert {r.candidate.label: r.folds for r in outcome.runners} == {"logistic regression": 3, "asymmetric": 3}
    assert outcome.not_run == ("BCE",)


def test_methods_for_missing_labels_run_only_where_labels_are_missing():
    plain = {one.label for one in candidates(unknown=False, negatives=True, epochs=2)}
    missing = {one.label for one in candidates(unknown=True, negatives=False, epochs=2)}
    assert missing - plain == {"ignore likely", "large loss", "pseudo-labels"}


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
