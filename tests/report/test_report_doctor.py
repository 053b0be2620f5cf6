"""What the doctor of the report says of a run: every sentence with the numbers that trigger it, and with too few."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from raretag.config.settings import compose
from raretag.engine import auto
from raretag.report import doctor, label_tables
from raretag.report.study import ENOUGH
from support.studies import CONFIG, make_study, random_study


def texts(study) -> dict[str, doctor.Finding]:
    return {finding.title: finding for finding in doctor.examine(study)}


def with_config(study, solves: bool | None = None, **changes):
    record = {**study.record, "config": {**CONFIG, **{name: {"name": value} for name, value in changes.items()}}}
    if solves is not None:
        record["method"] = {**record["method"], "solves": solves}
    return replace(study, record=record)


def with_thresholds(study, thresholds, tuned_f1=None):
    record = {**study.record, "thresholds": thresholds}
    if tuned_f1 is not None:
        final = {**study.final, "F1_tuned": tuned_f1}
        record["metrics"] = {**record["metrics"], "final": final}
    return replace(study, record=record)


# Labels that are never predicted. ------------------------------------------------------------------------------------


def collapsed_study(ranked: bool, positives: int = 40, **more):
    """Label 0 is never predicted; its ranking is perfect, or as bad as it can be."""
    random = np.random.default_rng(0)
    positive = np.zeros((200, 2), bool)
    positive[:positives, 0] = positive[:60, 1] = True
    p = np.where(positive, 0.9, 0.1)
    p[:, 0] = np.where(positive[:, 0] == ranked, 0.3, 0.2) + 0.01 * random.random(200)
    return make_study(p, positive, counts=np.array([5, 300]), labels=["rare", "frequent"], **more)


NEVER = "1 label never predicted"


def test_a_label_that_ranks_well_but_is_never_predicted_is_a_matter_of_thresholds():
    finding = texts(collapsed_study(ranked=True))[NEVER]
    assert finding.level == "warn"
    assert "never predicts “rare”." in finding.text
    assert "For it the ranking is fine and only the threshold is wrong" in finding.text
    assert "tuned on validation items (in card.json) 1 of 1 is found at least once" in finding.text
    assert not finding.command


def test_thresholds_that_were_tuned_out_of_fold_are_called_that():
    study = collapsed_study(ranked=True)
    told = {"thresholds": {"from": "out of fold", "items": 200}}
    study = replace(study, record={**study.record, "fitted_on": told})
    assert "tuned on training items, scored out of fold (in card.json)" in texts(study)[NEVER].text


def test_a_label_that_ranks_badly_and_is_never_predicted_needs_another_run():
    finding = texts(collapsed_study(ranked=False))[NEVER]
    assert finding.level == "bad"
    assert "For it (5 training positives) the ranking is poor too, so another threshold does not help." in finding.text
    assert "--set sampler.name=class_aware" in finding.command


@pytest.mark.parametrize("ranked", [True, False])
def test_too_few_test_positives_are_not_put_into_words(ranked):
    finding = texts(collapsed_study(ranked, positives=ENOUGH - 1))[NEVER]
    assert finding.level == "note"
    assert "fewer than 5 test positives: too few to tell whether the threshold or the ranking is" in finding.text
    assert "fine" not in finding.text
    assert "poor" not in finding.text
    assert not finding.command


def test_four_times_chance_is_not_fine_where_chance_is_next_to_nothing():
    """Five positives at places 200, 400, ... of 1,000: an average precision of 0.5 %, or of 1.6 % at 60, 120, ..."""
    positive = np.zeros((1000, 1), bool)
    for step in (60, 200):
        p = np.linspace(0.4, 0.1, 1000)[:, None]
        positive[:] = False
        positive[step - 1 : 5 * step : step] = True
        study = make_study(p, positive, counts=np.array([5]))
        assert study.ranks_well() == [False]
    one = np.zeros((1000, 1), bool)
    one[199] = True
    assert make_study(p, one, counts=np.array([5])).ranks_well() == [None]


@pytest.mark.parametrize(
    ("ranked", "positives", "verdict"),
    [
        (True, 40, "never predicted at 0.5; ranking fine"),
        (False, 40, "never predicted at 0.5; ranking poor"),
        (True, 1, "too few test positives to judge (1)"),
        (False, 4, "too few test positives to judge (4)"),
    ],
)
def test_the_table_of_worst_labels_judges_as_the_doctor_does(ranked, positives, verdict):
    study = collapsed_study(ranked, positives=positives)
    assert label_tables._verdict(study, 0, study.ranks_well()[0]) == verdict


# Thresholds. ---------------------------------------------------------------------------------------------------------


def test_a_gain_of_f1_that_always_saying_yes_has_too_is_called_that():
    random = np.random.default_rng(0)
    positive = random.random((400, 2)) < 0.3
    p = 0.1 + 0.3 * random.random((400, 2))  # knows nothing, and is below 0.5
    p[:, 0] = np.where(positive[:, 0], 0.4, 0.1)  # ranks well
    finding = texts(make_study(p, positive, counts=np.array([300, 5])))["Tuned thresholds do better than 0.5"]
    share = positive[:, 1].mean()
    assert f"but predicting it everywhere has {200 * share / (1 + share):.1f} %" in finding.text
    assert "head 0.0 % → 100.0 %;" in finding.text
    assert "(95 % interval of the difference: +" in finding.text
    assert finding.text.endswith("They are in card.json, and predictions use them.")


def worse_when_tuned(items):
    positive = np.zeros((items, 1), bool)
    positive[: items // 4] = True
    p = np.where(positive, 0.7, 0.3)
    p[0], p[-1] = 0.4, 0.6  # two mistakes at 0.5
    study = make_study(p, positive, counts=np.array([50]))
    worse = {**study.final["F1"], "total": study.final["F1"]["total"] - 0.2}
    return with_thresholds(study, [0.2], worse)  # everything is above 0.2


def test_tuned_thresholds_that_do_worse_are_said_with_an_interval_and_the_way_back():
    finding = texts(worse_when_tuned(200))["Tuned thresholds do worse than 0.5"]
    assert "tuned on validation items" in finding.text
    assert "(95 % interval of the difference: -" in finding.text
    assert "may have too few positives" in finding.text
    assert finding.command == "raretag tune runs/run --threshold 0.5"


def test_a_difference_of_f1_that_other_items_could_reverse_is_not_mentioned():
    """Eleven points of F1 hang on a single item."""
    positive = np.zeros((30, 1), bool)
    positive[:4] = True
    p = np.where(positive, 0.9, 0.1)
    p[-1] = 0.55
    study = make_study(p, positive, counts=np.array([50]))
    apart = study.gain_of_thresholds
    assert study.final["F1_tuned"]["total"] - study.final["F1"]["total"] > doctor.GAIN
    assert apart.low <= 0 <= apart.high
    assert doctor.thresholds(study) is None
    assert doctor.thresholds(replace(study, test=None)) is None


# Balance. ------------------------------------------------------------------------------------------------------------


def unbalanced(positives: int = 20, often: int = 60):
    """Head: `often` predictions, tail: a quarter of the positives, cut at 0.5."""
    positive = np.zeros((100, 3), bool)
    positive[:positives] = True
    p = np.where(positive, 0.9, 0.1)
    p[:often, 0] = 0.8
    p[: positives * 3 // 4, 2] = 0.2
    return with_thresholds(make_study(p, positive, counts=np.array([500, 50, 5])), [0.5] * 3)


def test_over_and_under_prediction_are_told_by_group():
    finding = texts(unbalanced())["Predicted head too often; tail too seldom"]
    assert finding.level == "warn"
    assert finding.text == "Predicted over true positives on the test items: head 3.00, medium 1.00, tail 0.25."
    missing = texts(replace(unbalanced(), unknown=np.array([9, 9, 9])))["Predicted head too often; tail too seldom"]
    assert missing.text.endswith("a method that treats them as absent learns to predict too little.")
    assert "--method ignore_likely" in missing.command


def test_groups_with_few_test_positives_are_not_judged():
    study = unbalanced(positives=8, often=40)
    assert doctor.balance(study) is None
    record = {**study.record, "groups": {**study.record["groups"], "medium": [0, 1], "head": []}}
    found = doctor.balance(replace(study, record=record))
    assert found.title == "Predicted medium too often"
    assert "tail 0.25 (of 8 positives: too few to judge)" in found.text


@pytest.mark.parametrize(
    ("positives", "often", "title"),
    [
        ((20, 20, 5), 0, "Each of the 2 groups that can be judged is predicted about as often as it occurs"),
        ((20, 5, 5), 0, "The only group that can be judged is predicted about as often as it occurs"),
        ((20, 20, 20), 0, "Every group is predicted about as often as it occurs"),
        ((20, 20, 20), 30, "Predicted every group too often"),
        ((20, 20, 5), 30, "Predicted head and medium too often"),
    ],
)
def test_the_title_claims_no_more_groups_than_were_judged(positives, often, title):
    positive = np.arange(100)[:, None] < np.array(positives)
    p = np.where(positive, 0.9, 0.1)
    p[50 : 50 + often] = 0.8
    study = with_thresholds(make_study(p, positive, counts=np.array([500, 50, 5])), [0.5] * 3)
    assert doctor.balance(study).title == title


def test_of_many_labels_a_few_are_named_and_the_others_counted():
    study = random_study(labels=11)
    assert doctor.listed(study, [0, 1]) == "“label 0”, “label 1”"
    assert doctor.listed(study, list(range(11))).endswith("“label 7” and 3 more")


def test_balance_is_judged_at_the_thresholds_that_predictions_use():
    """Twice as many predictions as positives at 0.5, but not at 0.7."""
    positive = np.zeros((100, 1), bool)
    positive[:20] = True
    p = np.where(positive, 0.9, 0.1)
    p[20:40] = 0.6
    study = make_study(p, positive, counts=np.array([50]))
    at_half, tuned = (doctor.balance(with_thresholds(study, [cut])) for cut in (0.5, 0.7))
    assert at_half.title == "Predicted medium too often"
    assert at_half.command == "raretag tune runs/run --precision 0.8"
    assert tuned.title == "Every group is predicted about as often as it occurs"


# Rare against frequent. ----------------------------------------------------------------------------------------------


def ranked_study(tail: float, labels: int = 4, positives: int = 20):
    """`labels` frequent labels, ranked perfectly, and as many rare ones, ranked right with probability `tail`."""
    random = np.random.default_rng(0)
    positive = np.zeros((400, 2 * labels), bool)
    positive[:200, :labels] = True
    positive[:positives, labels:] = True
    p = np.where(positive, 0.8, 0.2) + 0.1 * random.random(positive.shape)
    lost = random.random((400, labels)) > tail
    p[:, labels:] = np.where(lost, 0.2 + 0.7 * random.random((400, labels)), p[:, labels:])
    return make_study(p, positive, counts=np.array([300] * labels + [5] * labels))


WORSE = "Rare labels are ranked worse than frequent ones"


def test_rare_labels_that_are_ranked_worse_are_said_without_the_part_that_frequency_explains():
    finding = texts(ranked_study(tail=0.3))[WORSE]
    assert finding.level == "warn"
    assert "A positive scores above a negative in 100.0 % of the cases for the head and in " in finding.text
    assert "(4 and 4 labels with at least 5 test positives)" in finding.text


def test_a_low_average_precision_of_rare_labels_alone_is_not_a_worse_ranking():
    """Both rank alike, the tail's average precision is far lower because it is rare."""
    random = np.random.default_rng(0)
    positive = np.concatenate([random.random((2000, 4)) < 0.4, random.random((2000, 4)) < 0.01], axis=1)
    p = 1 / (1 + np.exp(-(random.normal(size=positive.shape) + 1.5 * positive)))
    study = make_study(p, positive, counts=np.array([800] * 4 + [5] * 4))
    assert study.final["mAP"]["head"] - study.final["mAP"]["tail"] > 0.5
    assert WORSE not in texts(study)


@pytest.mark.parametrize("few", [{"labels": 1}, {"positives": ENOUGH - 1}])
def test_one_label_or_a_handful_of_test_positives_show_no_worse_ranking(few):
    assert WORSE not in texts(ranked_study(tail=0.0, **few))


# What to try next. ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "advised"),
    [
        ({"model": "small_resnet"}, "--set sampler.name=class_aware"),
        ({"model": "small_resnet", "sampler": "class_aware"}, "--method distribution_balanced"),
        (
            {"model": "small_resnet", "sampler": "class_aware", "method": "distribution_balanced"},
            "--method partial_label_masking",
        ),
        ({"model": "mlp"}, "--method blend --set model.layers=0"),
        ({"model": "mlp", "method": "logistic_regression", "solves": True}, "--method blend"),
        ({"model": "mlp", "method": "committee", "solves": True}, ""),
        ({"model": "mlp", "method": "blend", "solves": True}, ""),
        ({"model": "mlp", "method": "blend", "solves": True, "unknown": 3}, "raretag review runs/run"),
    ],
)
def test_for_rare_labels_nothing_is_advised_that_the_run_has_or_the_default_would_decline(changes, advised):
    unknown = changes.pop("unknown", None) if (changes := dict(changes)) else None
    study = with_config(collapsed_study(ranked=False), **changes)
    study = study if unknown is None else replace(study, unknown=np.array([unknown, 0]))
    command = texts(study)[NEVER].command
    assert advised in command
    assert bool(advised) == bool(command)


def test_blend_is_advised_only_where_the_default_would_choose_it():
    assert doctor.BLEND_ENTRIES == auto.ENTRIES
    study = with_config(collapsed_study(ranked=False), model="mlp")
    items = {**study.record["data"], "items": {"train": doctor.BLEND_ENTRIES, "validation": 1, "test": 1}}
    assert doctor.for_rare(replace(study, record={**study.record, "data": items})) == ""


@pytest.mark.parametrize(
    ("changes", "unknown", "advised"),
    [
        ({"sampler": "class_aware"}, 0, "--set sampler.name=uniform"),
        ({}, 5, "--method assume_negative"),
        ({}, 0, "raretag tune runs/run --precision 0.8"),
        ({"method": "blend", "solves": True}, 0, "raretag tune runs/run --precision 0.8"),
    ],
)
def test_for_too_many_predictions_surer_ones(changes, unknown, advised):
    study = with_config(replace(random_study(), unknown=np.full(8, unknown)), **changes)
    assert advised in doctor.for_too_many(study)


@pytest.mark.parametrize(
    ("changes", "advised"),
    [
        ({"method": "blend", "solves": True}, "raretag review runs/run"),
        ({"method": "ignore_likely"}, "--method role"),
        ({}, "--method ignore_likely"),
    ],
)
def test_for_missing_labels(changes, advised):
    assert advised in doctor.for_missing(with_config(random_study(), **changes))


def test_an_advised_command_is_quoted_and_its_settings_are_valid():
    study = with_config(collapsed_study(ranked=False), model="mlp")
    words = shlex.split(texts(replace(study, path="runs/my run"))[NEVER].command)
    assert words[:4] == ["raretag", "train", "--config", "runs/my run/config.yaml"]
    changes = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    settings = compose(None, ["model.name=mlp", f"method.name={words[words.index('--method') + 1]}", *changes])
    assert (settings.method.name, settings.sampler.name) == ("blend", "auto")


# The rest. -----------------------------------------------------------------------------------------------------------


def test_a_perfect_run_has_nothing_to_complain_about_and_says_what_was_looked_at():
    positive = np.random.default_rng(0).random((80, 3)) < 0.3
    study = make_study(np.where(positive, 0.95, 0.05), positive, counts=np.array([500, 50, 5]))
    found = doctor.examine(study)
    assert {finding.level for finding in found} == {"good"}
    assert found[0].text == "All 3 labels with at least 5 test positives could be examined."
    unseen = texts(replace(study, test=None))["Nothing stands out"]
    assert (unseen.level, unseen.text) == ("note", "Only means could be examined.")  # not praised as good
    few = positive.copy()
    few[:, 2] = False
    few[:2, 2] = True
    study = make_study(np.where(few, 0.95, 0.05), few, counts=np.array([500, 50, 5]))
    said = "2 labels with at least 5 test positives could be examined; 1 label with fewer could not."
    assert texts(study)["Nothing stands out"].text == said


def test_a_method_that_saw_no_negative_is_named():
    study = random_study()
    study = replace(study, unknown=1000 - study.counts)
    finding = texts(study)["The method was given no negative"]
    assert finding.level == "bad"
    assert "binary_cross_entropy leaves unknown labels out of the loss" in finding.text
    assert "--method assume_negative" in finding.command
    assert "The method was given no negative" not in texts(replace(study, unknown=900 - study.counts))


def test_labels_without_training_or_test_positives_are_listed():
    positive = np.random.default_rng(0).random((80, 3)) < 0.3
    positive[:, 2] = False
    study = make_study(np.where(positive, 0.9, 0.1), positive, counts=np.array([50, 0, 3]))
    found = texts(study)
    assert found["1 label without a training positive"].text == (
        "“label 1” cannot be learned. Find examples, or leave the label out."
    )
    assert found["1 label not measured"].text == (
        "The test items hold no observed positive of “label 2”: left out of all means, not counted as 0."
    )


@pytest.mark.parametrize(
    ("curve", "title", "epochs"),
    [
        ([0.1, 0.5, 0.45, 0.4, 0.35], "Validation was best before the end", "train.epochs=2"),
        ([0.1, 0.2, 0.3, 0.4, 0.5], "Validation was still rising at the end", "train.epochs=10"),
        ([0.3, 0.4, 0.3, 0.4, 0.3, 0.4, 0.3, 0.4], None, None),  # jitter
        ([0.3, 0.4, 0.3, 0.4, 0.3, 0.4, 0.35], None, None),
    ],
)
def test_training_that_was_too_long_or_too_short_is_noticed(curve, title, epochs):
    study = random_study()
    rows = [{"epoch": n, "validation": {"mAP": {"total": value}}} for n, value in enumerate(curve)]
    study.record["metrics"]["epochs"] = rows
    found = doctor.schedule(study)
    assert (found and found.title) == title
    assert found is None or epochs in found.command


@pytest.mark.parametrize(
    ("right", "wrong", "level", "title"),
    [
        (10, 30, "warn", "Most labels that the method adds are wrong"),
        (1, 3, "note", "The method fills in missing labels"),  # 25 % too, of four
        (95, 5, "good", "The method fills in missing labels"),
        (5, 0, "note", "The method fills in missing labels"),
    ],
)
def test_labels_that_the_method_adds_are_judged_by_what_their_number_carries(right, wrong, level, title):
    row = {"epoch": 0, "found_missing": {"right": right, "wrong": wrong}}
    finding = texts(replace(random_study(), epochs=[row]))[title]
    assert finding.level == level
    percent = f"{100 * right / (right + wrong):.1f} %"
    share = f"treated {right + wrong} unknown labels as positives, of which {percent} are right."
    assert share in finding.text
    assert ("Raise its threshold or its warm-up." in finding.text) == (level == "warn")
