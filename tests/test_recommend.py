"""A race of methods keeps to its budget, never sees test items, and prefers the simpler of equals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from raretag.core.errors import UserError
from raretag.data.python import from_arrays
from raretag.engine.config import compose
from raretag.metrics.bootstrap import Difference
from raretag.recommend.candidates import candidates
from raretag.recommend.race import is_tie, race

QUICK = ["train.epochs=2", "model.name=mlp", "model.width=8"]


def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(90, 4)).astype(np.float32)
    return from_arrays(x, (x[:, :3] + 0.3 * random.normal(size=(90, 3)) > 0.5).astype(np.float32))


def entrants(*labels):
    listed = {one.label: one for one in candidates(unknown=False, negatives=True, epochs=2)}
    return [(listed[label], compose(None, [*QUICK, *listed[label].changes])) for label in labels]


def test_the_better_method_wins_and_every_runner_has_an_interval():
    outcome = race(entrants("logistic regression", "BCE"), data(), minutes=50, folds=2)
    assert outcome.choice.label == "logistic regression"  # two epochs are too few for the other
    assert outcome.runners[0].behind.value == 0
    assert all(r.behind.low <= r.behind.value <= r.behind.high for r in outcome.runners)
    assert all(r.score == pytest.approx(outcome.runners[0].score + r.behind.value) for r in outcome.runners)


def test_without_time_one_method_still_runs_and_the_others_are_named():
    ticks = iter(range(0, 10**6, 100))
    outcome = race(entrants("logistic regression", "BCE"), data(), minutes=1, folds=2, clock=lambda: float(next(ticks)))
    assert [r.candidate.label for r in outcome.runners] == ["logistic regression"]
    assert any("BCE" in remark for remark in outcome.remarks)


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
        race(entrants("BCE"), data(), minutes=0)
