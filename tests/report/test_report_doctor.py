"""What the doctor of the report finds in a run, and what it advises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from raretag.report import doctor
from support.studies import CONFIG, make_study, random_study


def texts(study) -> dict[str, doctor.Finding]:
    return {finding.title: finding for finding in doctor.examine(study)}


def collapsed_study(ranked: bool, **more):
    """Label 0 is never predicted; its ranking is perfect, or as bad as it can be."""
    random = np.random.default_rng(0)
    positive = random.random((200, 2)) < 0.2
    p = np.where(positive, 0.9, 0.1)
    p[:, 0] = np.where(positive[:, 0] == ranked, 0.3, 0.2) + 0.01 * random.random(200)
    return make_study(p, positive, counts=np.array([5, 300]), labels=["rare", "frequent"], **more)


def test_a_label_that_ranks_well_but_is_never_predicted_is_a_matter_of_thresholds():
    finding = texts(collapsed_study(ranked=True))["1 label never predicted"]
    assert finding.level == "warn"
    assert "“rare”" in finding.text
    assert "only the threshold is wrong" in finding.text
    assert "1 of 1 is found" in finding.text
    assert not finding.command
    assert "The ranking is better than the threshold of 0.5" in texts(collapsed_study(ranked=True))


def test_a_label_that_ranks_badly_and_is_never_predicted_needs_another_run():
    finding = texts(collapsed_study(ranked=False))["1 label never predicted"]
    assert finding.level == "bad"
    assert "5 training positives" in finding.text
    assert "no threshold makes them useful" in finding.text
    assert "--set sampler.name=class_aware" in finding.command


def test_a_gain_of_f1_that_always_saying_yes_has_too_is_called_that():
    random = np.random.default_rng(0)
    positive = random.random((400, 2)) < 0.3
    p = 0.1 + 0.3 * random.random((400, 2))  # knows nothing, and is below 0.5
    p[:, 0] = np.where(positive[:, 0], 0.4, 0.1)  # ranks well
    study = make_study(p, positive, counts=np.array([300, 5]))
    text = texts(study)["The ranking is better than the threshold of 0.5"].text
    share = positive[:, 1].mean()
    assert f"but predicting it everywhere has {200 * share / (1 + share):.1f} %" in text
    assert "head 0.0 % → 100.0 %;" in text


@pytest.mark.parametrize(("method", "advised"), [("logistic_regression", "--method blend"), ("blend", "")])
def test_a_solved_run_is_not_told_to_sample_otherwise(method, advised):
    study = collapsed_study(ranked=False)
    config, told = {**CONFIG, "method": {"name": method}}, {**study.record["method"], "solves": True}
    study = replace(study, record={**study.record, "config": config, "method": told})
    command = texts(study)["1 label never predicted"].command
    assert advised in command
    assert "sampler.name=class_aware" not in command
    assert doctor.for_too_many(study).startswith("raretag tune")


def test_another_loss_is_advised_where_the_sampler_is_class_aware_already():
    study = collapsed_study(ranked=False)
    config = {**CONFIG, "sampler": {"name": "class_aware"}}
    study = replace(study, record={**study.record, "config": config}, path="runs/my run")
    command = texts(study)["1 label never predicted"].command
    assert "--method distribution_balanced" in command
    assert "'runs/my run/config.yaml'" in command


def test_over_and_under_prediction_are_told_by_group():
    positive = np.zeros((100, 3), bool)
    positive[:20] = True
    p = np.where(positive, 0.9, 0.1)
    p[:60, 0] = 0.8  # head: 60 predictions for 20 positives
    p[:15, 2] = 0.2  # tail: 5 predictions for 20 positives
    study = make_study(p, positive, counts=np.array([500, 50, 5]))
    finding = texts(study)["At 0.5: head too often; tail too seldom"]
    assert "head 3.00, medium 1.00, tail 0.25" in finding.text


def test_a_perfect_run_has_nothing_to_complain_about():
    positive = np.random.default_rng(0).random((80, 3)) < 0.3
    study = make_study(np.where(positive, 0.95, 0.05), positive, counts=np.array([500, 50, 5]))
    assert {finding.level for finding in doctor.examine(study)} == {"good"}


def test_a_method_that_saw_no_negative_is_named():
    study = random_study()
    study = replace(study, unknown=1000 - study.counts)
    assert texts(study)["The method was given no negative"].level == "bad"
    assert "The method was given no negative" not in texts(replace(study, unknown=900 - study.counts))


def test_labels_without_training_or_test_positives_are_listed():
    positive = np.random.default_rng(0).random((80, 3)) < 0.3
    positive[:, 2] = False
    study = make_study(np.where(positive, 0.9, 0.1), positive, counts=np.array([50, 0, 3]))
    found = texts(study)
    assert "“label 1”" in found["1 label without a training positive"].text
    assert "“label 2”" in found["1 label not measured"].text


@pytest.mark.parametrize(
    ("curve", "title", "epochs"),
    [
        ([0.1, 0.5, 0.4, 0.3, 0.2], "Validation was best before the end", "train.epochs=2"),
        ([0.1, 0.2, 0.3, 0.4, 0.5], "Validation was still rising at the end", "train.epochs=10"),
    ],
)
def test_training_that_was_too_long_or_too_short_is_noticed(curve, title, epochs):
    study = random_study()
    rows = [{"epoch": n, "validation": {"mAP": {"total": value}}} for n, value in enumerate(curve)]
    study.record["metrics"]["epochs"] = rows
    assert epochs in texts(study)[title].command


def test_corrections_that_are_mostly_wrong_are_a_warning():
    row = {"epoch": 0, "found_missing": {"right": 10, "wrong": 30}}
    found = texts(replace(random_study(), epochs=[row]))
    assert "25.0 %" in found["Most labels that the method adds are wrong"].text
