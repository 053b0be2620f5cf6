"""Suggestions of missing labels: what is promised, what is listed, and that no model judges what it has seen."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.labels.counts import groups
from raretag.labels.store import LabelStore
from raretag.suggestions import answers as reading
from raretag.suggestions.answers import Answer
from raretag.suggestions.listing import task_of, write_all
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.promise import Promise, exact
from raretag.suggestions.selection import list_suggestions, pick


def world(seed, items=1500, labels=8, spread=2.5):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(items, labels)) * spread - np.linspace(1, 4, labels)
    truth = generator.random(x.shape) < 1 / (1 + np.exp(-1.5 * x))
    return x + 0.3 * generator.normal(size=x.shape), truth, generator


def partial(truth, observed):
    return Targets(torch.tensor(truth, dtype=torch.float32), torch.tensor(observed))


def promised(evidence, truth, size, quota=0.3):
    picked = pick(evidence.t, evidence.candidates, size, quota)
    shape = evidence.t.shape
    return evidence.promise(picked.mask(shape), picked.mask(shape, True)), truth[picked.row, picked.label].mean()


SETTINGS = {
    "positives alone, share told": (0.6, 0.0, 0.6, 2.5),
    "positives alone, share estimated": (0.6, 0.0, None, 2.5),
    "positives alone, a weak model, share told": (0.6, 0.0, 0.6, 0.7),
    "positives alone, a weak model": (0.6, 0.0, None, 1.0),
    "both states alike": (0.3, 0.3, None, 2.5),
    "negatives more rarely": (0.6, 0.1, None, 2.5),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_obtained_precision_lies_in_the_promised_interval(setting):
    positives, negatives, kept, spread = SETTINGS[setting]
    covered = []
    for seed in range(5):
        z, truth, generator = world(seed, items=1000, spread=spread)
        observed = generator.random(truth.shape) < np.where(truth, positives, negatives)
        evidence = estimate_probabilities(z, partial(truth, observed), kept)
        assert evidence.both == (negatives > 0)
        for size in (100, 300):
            promise, obtained = promised(evidence, truth, size)
            covered.append(promise.covers(obtained))
    assert np.mean(covered) >= 0.8


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.5])
def test_where_every_item_has_a_label_promises_hold_and_are_narrow(spread):
    covered, widths = [], []
    for seed in range(3):
        z, truth, generator = world(seed, spread=spread)
        z, truth = z[truth.any(axis=1)], truth[truth.any(axis=1)]
        evidence = estimate_probabilities(z, partial(truth, truth & (generator.random(truth.shape) < 0.6)))
        promise, obtained = promised(evidence, truth, 300)
        covered.append(promise.covers(obtained))
        widths.append(promise.high - promise.low)
    assert np.mean(covered) == 1
    assert np.mean(widths) < 0.5


def test_an_interval_is_the_shortest_that_holds_its_share_of_the_draws():
    draws = np.linspace(0.3, 1.3, 1001)  # 30 % above 1
    cut = Promise.of_draws(100, draws)
    assert (cut.low, cut.high) == (pytest.approx(0.4, abs=0.01), 1.0)
    inside = Promise.of_draws(100, np.random.default_rng(0).normal(0.5, 0.1, 20_000))
    assert (inside.low, inside.high) == (pytest.approx(0.336, abs=0.02), pytest.approx(0.664, abs=0.02))


def test_a_weak_model_promises_little_and_says_that_the_scores_do_not_fix_the_share():
    z, truth, generator = world(0, spread=0.5)
    evidence = estimate_probabilities(z, partial(truth, truth & (generator.random(truth.shape) < 0.6)))
    promise, _ = promised(evidence, truth, 300)
    assert promise.high - promise.low > 0.3
    assert "answer fifty suggestions in random order (--audit)" in evidence.assumption()


def test_single_marks_promise_nothing():
    z, truth, _ = world(4)
    rows = truth.any(axis=1)
    z, truth = z[rows], truth[rows]
    observed = np.zeros_like(truth)
    observed[np.arange(len(truth)), np.argmax(truth, axis=1)] = True
    evidence = estimate_probabilities(z, partial(truth, observed))
    promise, obtained = promised(evidence, truth, 200)
    assert promise.covers(obtained)
    assert promise.high - promise.low > 0.7
    assert "exactly one mark" in evidence.assumption()


def test_rejected_suggestions_are_not_taken_for_random_negatives():
    z, truth, generator = world(1)
    observed = truth & (generator.random(truth.shape) < 0.6)
    likely = z > np.quantile(z, 0.9)
    observed |= likely & ~truth & (generator.random(truth.shape) < 0.5)  # somebody said no to them
    evidence = estimate_probabilities(z, partial(truth, observed))
    assert not evidence.both
    promise, obtained = promised(evidence, truth, 200)
    assert promise.covers(obtained)


def test_probabilities_are_calibrated_among_the_suggestions():
    z, truth, generator = world(2, items=4000, spread=1.5)
    evidence = estimate_probabilities(z, partial(truth, truth & (generator.random(truth.shape) < 0.6)), 0.6)
    picked = pick(evidence.t, evidence.candidates, 4000, 0.0)
    p, right = evidence.probability(evidence.t[picked.row, picked.label]), truth[picked.row, picked.label]
    for part in np.array_split(np.arange(4000), 5):
        assert abs(p[part].mean() - right[part].mean()) < 0.08


def test_what_stands_under_an_unknown_label_changes_no_suggestion():
    z, truth, generator = world(3, items=300)
    observed = generator.random(truth.shape) < np.where(truth, 0.5, 0.2)
    value = torch.tensor(truth, dtype=torch.float32)
    one = estimate_probabilities(z, Targets(value, torch.tensor(observed)))
    other = estimate_probabilities(
        z, Targets(torch.where(torch.tensor(observed), value, torch.nan), torch.tensor(observed))
    )
    assert np.array_equal(one.t, other.t)
    assert np.array_equal(one.log_ratio, other.log_ratio)


def test_quotas_bring_every_label_and_keep_the_length():
    t = np.tile(np.linspace(5, -5, 6), (100, 1)) + np.random.default_rng(0).normal(size=(100, 6)) * 0.1
    everything = np.ones(t.shape, bool)
    without, with_quota = pick(t, everything, 60, 0.0), pick(t, everything, 60, 0.3)
    assert set(without.label) == {0}
    assert set(with_quota.label) == set(range(6))
    assert len(without) == len(with_quota) == 60
    assert (np.bincount(with_quota.label) >= 3).all()
    scores = t[with_quota.row, with_quota.label]
    assert (np.diff(scores) <= 0).all()


def test_a_quota_that_rank_would_fill_anyway_changes_nothing():
    t = np.random.default_rng(1).normal(size=(50, 3))
    one, other = pick(t, np.ones(t.shape, bool), 90, 0.0), pick(t, np.ones(t.shape, bool), 90, 0.1)
    assert np.array_equal(one.row, other.row)
    assert np.array_equal(one.label, other.label)


def test_nothing_observed_is_suggested_and_nothing_twice():
    z, truth, generator = world(4, items=200)
    observed = generator.random(truth.shape) < 0.5
    evidence = estimate_probabilities(z, partial(truth, observed))
    picked = pick(evidence.t, evidence.candidates, 10_000, 0.3)
    assert not observed[picked.row, picked.label].any()
    assert len(set(zip(picked.row, picked.label, strict=True))) == len(picked) == (~observed).sum()


def test_exact_intervals_are_those_of_the_binomial():
    assert exact(0, 20).low == 0
    assert exact(0, 20).high == pytest.approx(1 - 0.05 ** (1 / 20))
    assert exact(20, 20).low == pytest.approx(0.05 ** (1 / 20))
    assert (exact(0, 0).low, exact(0, 0).high) == (0, 1)


@pytest.fixture(scope="module")
def listed():
    z, truth, generator = world(5, items=800)
    store = LabelStore.from_dense(np.where(truth & (generator.random(truth.shape) < 0.6), 1.0, np.nan))
    members = groups(store.statistics().positives, (20, 100))
    return z, truth, store, members, list_suggestions(z, store, members, most=200)


def test_an_audit_corrects_a_wrong_share(listed):
    z, truth, store, members, _ = listed
    wrong = list_suggestions(z, store, members, most=200, label_frequency=0.95, quota=0.0)
    said = [
        Answer(one.item, one.label, ("yes" if truth[int(one.item), int(one.label)] else "no"), one.was, audit=one.audit)
        for one in wrong.missing
        if one.audit <= 60
    ]
    rest = [Answer(one.item, one.label, None, one.was, audit=one.audit) for one in wrong.missing if one.audit > 60]
    again = list_suggestions(z, store, members, most=100, label_frequency=0.95, quota=0.0, answered=[*said, *rest])
    obtained = np.mean([truth[int(one.item), int(one.label)] for one in wrong.missing])
    assert not wrong.promises[-1].covers(obtained)
    assert again.audit.is_random
    assert again.audit.promise().covers(obtained)
    assert not {(a.item, a.label) for a in said} & {(one.item, one.label) for one in again.missing}
    of_next = np.mean([truth[int(one.item), int(one.label)] for one in again.missing])
    assert again.promises[-1].covers(of_next)


def test_answers_at_the_top_of_the_list_are_not_called_a_random_sample(listed):
    z, _, store, members, listing = listed
    said = [Answer(one.item, one.label, "yes", one.was, audit=one.audit) for one in listing.missing[:30]]
    assert not list_suggestions(z, store, members, answered=said).audit.is_random


def test_marks_that_are_wrong_are_doubted_first():
    z, truth, generator = world(6, items=3000, spread=3.0)
    marked = truth & (generator.random(truth.shape) < 0.7)
    false = ~truth & (generator.random(truth.shape) < 0.01) & (z < -2)
    store = LabelStore.from_dense(np.where(marked | false, 1.0, np.nan))
    listing = list_suggestions(z, store, {}, most=10, wrong=50)
    doubted = [one for one in listing.suggestions if one.kind == "wrong"]
    assert len(doubted) == 50
    assert np.mean([false[int(one.item), int(one.label)] for one in doubted]) > 0.8
    assert {one.was for one in doubted} == {"positive"}


def test_where_nothing_is_unknown_the_negatives_are_looked_at():
    z, truth, generator = world(7)
    store = LabelStore.from_dense((truth & (generator.random(truth.shape) < 0.6)).astype(float))
    listing = list_suggestions(z, store, {}, most=100, quota=0.0)
    assert {one.was for one in listing.missing} == {"negative"}
    obtained = np.mean([truth[int(one.item), int(one.label)] for one in listing.missing])
    assert listing.promises[-1].covers(obtained)


def test_no_positive_at_all_is_one_line():
    with pytest.raises(UserError, match="nothing can be suggested"):
        estimate_probabilities(np.zeros((3, 2)), Targets(torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.bool)))


def test_every_written_form_is_read_back(listed, tmp_path):
    listing = replace(listed[-1], previews={listed[-1].missing[0].item: {"text": 'a "b", c\nd'}})
    write_all(tmp_path, listing, {})
    rows = reading.read(tmp_path / "suggestions.csv")
    assert rows == reading.read(tmp_path / "suggestions.jsonl")
    assert [(row.item, row.label, row.audit) for row in rows] == [
        (one.item, one.label, one.audit) for one in listing.suggestions
    ]
    assert all(row.answer is None for row in rows)
    tasks = json.loads((tmp_path / "label-studio.json").read_text())
    assert [task["predictions"][0]["result"][0]["value"]["choices"] for task in tasks[:1]] == [["yes"]]
    for task in tasks:
        task["annotations"] = [{"result": [{"type": "choices", "value": {"choices": ["no"]}}], "was_cancelled": False}]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    short = [{"item": task["data"]["item"], "label": task["data"]["label"], "answer": "no"} for task in tasks]
    (tmp_path / "short.json").write_text(json.dumps(short))
    for name in ("export.json", "short.json"):
        found = reading.read(tmp_path / name)
        assert [(row.item, row.label, row.answer) for row in found] == [(row.item, row.label, "no") for row in rows]


def test_a_task_asks_for_the_label_itself_whatever_is_doubted(listed):
    one = listed[-1].missing[0]
    assert one.label in task_of(one, {})["data"]["question"]


def test_the_likeliest_labels_come_first_and_promises_grow_no_better(listed):
    listing = listed[-1]
    p = [one.probability for one in listing.missing]
    assert p == sorted(p, reverse=True)
    assert [promise.size for promise in listing.promises] == [50, 100, 200]
    assert sorted(one.audit for one in listing.missing) == list(range(1, 201))


MISTAKES = {
    "no column": ("a.csv", "item,label\n1,a\n", "no column answer"),
    "a strange answer": ("a.csv", "item,label,answer\n1,a,perhaps\n", "expected yes, no"),
    "no rows": ("a.csv", "item,label,answer\n", "has no rows"),
    "no JSON": ("a.jsonl", "{\n", "not JSON"),
    "no object": ("a.jsonl", "3\n", "expected an object"),
    "no tasks": ("a.json", "{}", "expected a list of tasks"),
    "no label": ("a.jsonl", '{"item": "1", "answer": "yes"}\n', "no label"),
    "another ending": ("a.txt", "x", "expected .csv"),
    "no text": ("a.csv", b"item,label,answer\n\xff\xfe,a,b\n", "not text"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_answers_that_cannot_be_read_are_one_line(mistake, tmp_path):
    name, content, message = MISTAKES[mistake]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message) as error:
        reading.read(path)
    assert "\n" not in str(error.value)
