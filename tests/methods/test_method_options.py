"""What a user may say to a method: mistakes are answered in one line, combinations keep what belongs together."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
import torch

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method, make_method
from raretag.core.registry import names
from raretag.core.targets import LabelStatistics
from raretag.methods import FILLS
from support.batches import a_batch, make

STATISTICS = LabelStatistics.of_counts([4, 2, 0], items=12)


def built(name: str, **options: Any) -> Method:
    return build_method(name, STATISTICS, items=12, **options)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("focal", {"gamma": -1.0}, "gamma is a focusing power"),
        ("focal", {"alpha": 1.5}, "alpha is the weight of positives"),
        ("focal", {"gama": 1.0}, "did you mean 'gamma'"),
        ("asymmetric", {"margin": 1.0}, "margin is a shift of probability"),
        ("asymmetric", {"gamma_neg": -0.5}, "must be 0 or more"),
        ("hill", {"gamma": -1.0}, "hill.gamma"),
        ("label_smoothing", {"smoothing": 0.5}, r"\[0, 0.5\)"),
        ("weak_negative", {"negative_weight": -1.0}, "must be 0 or more"),
        ("splc", {"tau": 0.0}, "tau is a probability"),
        ("ignore_likely", {"tau": 1.5}, "tau is a probability"),
        ("ignore_likely", {"warm_up": 3}, "share of the epochs"),
        ("partial_asymmetric", {"mode": "select"}, "expected one of 'negative'"),
        ("partial_asymmetric", {"prior": [0.1]}, "1 numbers for 3 labels"),
        ("partial_asymmetric", {"likely": -1}, "must be 0 or more"),
        ("class_balanced", {"beta": 1.0}, r"beta must lie in \[0, 1\)"),
        ("ldam", {"scale": 0.0}, "scale must be above 0"),
        ("negative_tolerant", {"scale": 0.0}, "must be above 0"),
        ("combined", {"keep": "focal"}, "'focal' has nothing in the slot 'keep'"),
        ("combined", {"score": "asymetric"}, "did you mean 'asymmetric'"),
        ("combined", {"score": {"gamma": 1.0}}, "is not a method"),
        ("combined", {"base": "role"}, "term beyond its objective"),
    ],
)
def test_a_mistake_is_answered_in_one_line(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        built(name, **options)
    assert "\n" not in str(caught.value)


def test_a_choice_in_two_slots_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(name: str, *positional: Any, **keywords: Any) -> Method:
        made.append(name)
        return make_method(name, *positional, **keywords)

    monkeypatch.setattr("raretag.core.method.make_method", counted)
    one, same = {"name": "partial_asymmetric", "likely": 1}, {"likely": 1, "name": "partial_asymmetric"}
    built("combined", base="focal", keep=one, score=same, weigh="weak_negative")
    assert sorted(made) == ["combined", "focal", "partial_asymmetric", "weak_negative"]


def test_a_combination_is_sampled_as_any_of_its_methods_wants() -> None:
    assert built("combined", base="focal", score="asymmetric").sampler == "uniform"
    assert built("combined", weigh="rebalanced").sampler == "class_aware"
    assert Method.sampler == built("focal").sampler == "uniform"


def test_the_slots_that_are_listed_are_those_of_the_objects() -> None:
    *_, positives = a_batch()
    assert {name: tuple(make(name, {}, positives).objective.filled()) for name in names("methods")} == FILLS


def test_a_share_of_the_epochs_is_over_at_a_whole_epoch() -> None:
    begins = [
        next(e for e in range(101) if Context(epoch=e, epochs=100).has_begun(share / 100)) for share in range(101)
    ]
    assert begins == list(range(101))
    assert not Context(epoch=2, epochs=30).has_begun(0.1)
    assert Context(epoch=3, epochs=30).has_begun(0.1)


def test_a_logit_shift_moves_the_prediction_of_a_label_by_its_own_odds():
    statistics = LabelStatistics.of_counts([50, 10, 0], items=100)  # a label never seen counts as seen once
    outputs = torch.zeros(1, 3, dtype=torch.float64)
    shifted = build_method("logit_shift", statistics, items=100, strength=0.5).logits(outputs)
    share = [0.5, 0.1, 0.01]
    middle = sum(share) / 3
    expected = [0.5 * (log(middle / (1 - middle)) - log(s / (1 - s))) for s in share]
    assert shifted[0].tolist() == pytest.approx(expected, abs=1e-9)
