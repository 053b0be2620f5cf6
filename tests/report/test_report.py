"""The report's numbers: curves, histograms, confusions, and what is embedded."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve

from raretag.report import charts, doctor, examples, markup, training_curves
from raretag.report.comparison import Comparison, difference_tables
from raretag.report.label_tables import confusions, label_table, worst, worst_table
from raretag.report.page import page
from raretag.report.study import Example
from support.studies import make_study, random_study

STUB = "window.Plotly = {};"


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_precision_recall_agrees_with_scikit_learn_on_observed_items(entries):
    score, hit, seen = (np.array(column) for column in zip(*entries, strict=True))
    found = charts.precision_recall(score / 10, hit & seen, seen)
    if not (hit & seen).any():
        assert found is None
        return
    precision, recall, threshold = precision_recall_curve(hit[seen], score[seen] / 10)
    theirs = {(round(r, 4), round(p, 4), round(t, 4)) for p, r, t in zip(precision, recall, threshold, strict=False)}
    assert found is not None
    ours = list(zip(*found, strict=True))
    assert set(ours) <= theirs
    assert [r for r, _, _ in ours] == sorted(r for r, _, _ in ours)
    assert ours[-1][0] == 1.0


def test_a_long_curve_is_thinned_but_keeps_its_ends():
    random = np.random.default_rng(0)
    p, hit = random.random(5000), random.random(5000) < 0.4
    recall, _, threshold = charts.precision_recall(p, hit, np.ones(5000, bool))
    assert len(recall) <= charts.CURVE_POINTS + 1
    assert recall[-1] == 1.0
    assert threshold[0] == round(float(p.max()), 4)


def test_histograms_count_each_observed_label_once_and_sum_to_one():
    study = random_study(200, 8)
    found = charts.histograms(study)
    assert list(found) == ["head", "medium", "tail"]
    for group, sides in found.items():
        members = study.record["groups"][group]
        p = study.test.p[:, members][study.test.positive[:, members]]
        by_hand = [np.mean((p >= b / 20) & ((p < (b + 1) / 20) | (b == 19))) for b in range(20)]
        np.testing.assert_allclose(sides["positives"], by_hand, atol=1e-4)
        assert sum(sides["negatives"]) == pytest.approx(1.0, abs=2e-3)


def test_what_lies_under_an_unknown_label_changes_nothing():
    study = random_study()
    observed = np.random.default_rng(1).random(study.test.p.shape) < 0.7
    pages = []
    for hidden in (0.01, 0.99):
        p = np.where(observed, study.test.p, hidden)
        one = make_study(p, study.test.positive, observed=observed, counts=study.counts)
        parts = [charts.histograms(one), charts.precision_recall_curves(one, list(range(8))), doctor.examine(one)]
        parts += [confusions(one, worst(one)), one.at_half.f1.tolist(), one.at_tuned.predicted.tolist()]
        pages.append(parts)
    assert str(pages[0]) == str(pages[1])


def test_confusions_name_what_was_found_instead_and_what_raised_alarms():
    positive = np.zeros((12, 3), bool)
    positive[:4, 0] = positive[4:8, 1] = positive[8:, 2] = True
    p = np.where(positive, 0.9, 0.1)
    p[:3, 0], p[:3, 1] = 0.1, 0.8  # three items of label 0 are taken for label 1
    study = make_study(p, positive, labels=["a", "b", "c"])
    study.record["thresholds"] = [0.5, 0.5, 0.5]
    found = {one.label: one for one in confusions(study, [0, 1, 2])}
    assert found[0].found_instead == (("b", 3),)
    assert found[1].alarms_on == (("a", 3),)
    assert found[2].found_instead == found[2].alarms_on == ()
    assert worst(study)[0] == 0


def test_inner_numbers_of_many_labels_are_joined_by_group():
    study = random_study(labels=15)
    rows = [
        {"epoch": n, "vital_signs": {"kappa_head": 0.1 * n}, "by_label": {"ratio": [2.0**n] * 15}} for n in range(3)
    ]
    made = {title: chart for title, _, chart in training_curves.method_curves(replace(study, epochs=rows))}
    ratio = made["Masking ratio by group"]
    assert [line["name"] for line in ratio["data"]] == ["head", "medium", "tail"]
    assert ratio["data"][0]["y"] == pytest.approx([1.0, 2.0, 4.0])
    few = random_study(labels=4)
    rows = [{"epoch": 0, "by_label": {"ratio": [1.0, 2.0, 3.0, 4.0]}}]
    (_, _, chart), *_ = training_curves.method_curves(replace(few, epochs=rows))
    assert [line["y"][0] for line in chart["data"]] == [1.0, 2.0, 3.0, 4.0]


def test_items_to_look_at_are_what_they_are_called():
    study = random_study(200, 6)
    found = examples.picks(study.test, study.counts)
    assert {pick.kind for pick in found} == {"missed", "doubt", "right"}
    for pick in found:
        there, p = study.test.positive[pick.row, pick.label], study.test.p[pick.row, pick.label]
        assert there == (pick.kind != "doubt")
        assert (p < 0.5) == (pick.kind == "missed")
    assert len({pick.row for pick in found}) == len(found)


def test_suggestions_have_a_place_for_rare_labels():
    rows = np.array([[0, 1, 2], [3, 4, -1], [-1, -1, -1]], np.int32)
    logits = np.array([[5.0, 4.0, 3.0], [1.0, 0.5, 0.0], [0, 0, 0]], np.float32)
    truth = np.array([[1, 0, 1], [-1, -1, -1], [-1, -1, -1]], np.int8)
    found = examples.suggestions(rows, logits, truth, np.array([100, 3, 1]))
    assert [(pick.label, pick.row, pick.right) for pick in found] == [
        (1, 3, None), (1, 4, None), (0, 0, True), (0, 1, False),
    ]  # fmt: skip


def test_no_content_can_end_the_data_island():
    content = {"a": "</script><script>alert(1)</script>", "b": "<!--", "c": "\u2028&"}
    packed = markup.data_island(content)
    assert not set("<>&\u2028") & set(packed)
    assert json.loads(packed) == content


def test_names_from_a_user_are_escaped_everywhere():
    evil = "<script>alert(1)</script>"
    labels = [evil, '"><img src=x onerror=alert(1)>', *(f"label {n}" for n in range(6))]
    example = Example("missed", evil, text=evil, present=(evil,), found=((evil, 0.5, None),), missed=((evil, 0.1),))
    study = random_study(labels=8)
    study.record["data"]["labels"] = labels
    study.record["data"]["name"] = evil
    together = (np.zeros((8, 2), np.int32), np.ones((8, 2), np.int32))
    study = replace(study, name=evil, examples=[example], missing=[evil], together=together)
    markup_ = page([study, replace(study, name=evil + "2")], None, STUB)
    assert evil not in markup_
    assert "<img src=x" not in markup_
    assert markup_.count("<script") == 4  # ours: the class name, the content, plotly and the page's own


def test_the_same_runs_give_the_same_page():
    assert page([random_study()], None, STUB) == page([random_study()], None, STUB)


def test_many_labels_are_cut_to_a_bounded_page_that_says_so():
    study = random_study(300, 1500)
    made = page([study, replace(study, name="other")], None, STUB)
    assert len(made) < 3_000_000
    assert "500 of 1,500 labels are shown" in made
    assert "Curves of 200 of 1,500 labels are in this page" in made
    assert len(study.labels_to_show(500)) == 500
    rarest, worst_label = int(np.argmin(study.counts)), int(np.nanargmin(study.average_precision))
    assert {rarest, worst_label, int(np.argmax(study.counts))} <= set(study.labels_to_show(500))


def test_a_study_without_predictions_still_makes_a_page():
    study = replace(random_study(), test=None, counts=None)
    made = page([study], None, STUB)
    assert "only means could be examined" in made
    assert 'id="curve-label"' not in made
    assert label_table(study, None)
    assert worst_table(study, None)


def test_a_difference_is_bold_only_if_its_interval_leaves_out_zero():
    sure = {"value": 0.02, "low": 0.01, "high": 0.03, "p_value": 0.01}
    unsure = {"value": -0.02, "low": -0.05, "high": 0.01, "p_value": 0.3}
    made = difference_tables(Comparison("base", {}, {"mAP": {"other": {"total": sure, "tail": unsure}}}, 100))
    assert re.search(r"<strong>.*\+2\.0.*</strong>", made)
    assert '<span><span class="down">-2.0</span></span>' in made


def test_tuned_thresholds_are_of_calibrated_probabilities():
    random = np.random.default_rng(1)
    study = random_study()
    p, labels = study.test.p, study.test.p.shape[1]
    scale, shift, thresholds = random.uniform(0.3, 3, labels), random.normal(size=labels), random.uniform(0, 1, labels)
    thresholds[0] = 1.0  # never chosen
    study.record["thresholds"] = thresholds.tolist()
    study.record["calibration"] = {"scale": scale.tolist(), "shift": shift.tolist()}
    calibrated = 1 / (1 + np.exp(-(scale * (np.log(p) - np.log1p(-p)) + shift)))
    assert np.array_equal(p > study.thresholds, calibrated > thresholds)
