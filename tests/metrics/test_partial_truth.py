"""Numbers on a test set whose labels are partly unknown."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.data.arrays import from_arrays
from raretag.engine.measure import sentence_on_partial_truth
from raretag.metrics import decisions
from raretag.metrics.bounds import average_precision_bounds, decision_bounds, micro_bounds
from raretag.metrics.partial_labels import partial_truth
from raretag.metrics.precision_curve import average_precision
from raretag.metrics.scored import mean_of_known
from support.runs import run

NAN = float("nan")


def targets(rows):
    value = torch.tensor(rows, dtype=torch.float32)
    return Targets(torch.nan_to_num(value, nan=0.5), ~value.isnan())


@example(list(zip([0, 0, 1, 1, 1, 1, 2], [1.0, NAN, 0.0, 0.0, 0.0, NAN, 1.0], strict=True)))  # ties: lower is better
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 1.0, NAN])), min_size=2, max_size=9))
@settings(max_examples=300, deadline=None)
def test_average_precision_bounds_are_the_extremes_over_all_ways_the_unknown_labels_may_be(entries):
    scores = torch.tensor([[float(score)] for score, _ in entries])
    labels = np.array([state for _, state in entries])
    if not (labels == 1).any():
        return
    found = average_precision_bounds(scores, targets([[state] for _, state in entries]))
    unknown = np.flatnonzero(np.isnan(labels))
    values = []
    for guess in itertools.product([0.0, 1.0], repeat=len(unknown)):
        full = labels.copy()
        full[unknown] = guess
        values.append(average_precision_score(full, scores[:, 0].numpy()))
    assert float(found.low[0]) == pytest.approx(min(values))
    assert float(found.high[0]) == pytest.approx(max(values))


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 1.0, NAN])), min_size=1, max_size=7))
@settings(max_examples=100, deadline=None)
def test_decision_bounds_are_the_extremes_over_all_ways(entries):
    decided = torch.tensor([[d] for d, _ in entries])
    partial = targets([[state] for _, state in entries])
    labels = np.array([state for _, state in entries])
    unknown = np.flatnonzero(np.isnan(labels))
    found: dict = {"precision": [], "recall": [], "F1": []}
    for guess in itertools.product([0.0, 1.0], repeat=len(unknown)):
        full = labels.copy()
        full[unknown] = guess
        there, chosen = full == 1, decided[:, 0].numpy()
        tp = (there & chosen).sum()
        found["precision"].append(tp / max(chosen.sum(), 1))
        found["recall"].append(tp / max(there.sum(), 1))
        found["F1"].append(2 * tp / max(there.sum() + chosen.sum(), 1))
    for name, (low, high) in micro_bounds(decided, partial).items():
        assert low == pytest.approx(min(found[name]))
        assert high == pytest.approx(max(found[name]))
    for name, ends in decision_bounds(decided, partial).items():
        if (labels == 1).any():
            assert float(ends.low[0]) == pytest.approx(min(found[name]))
            assert float(ends.high[0]) == pytest.approx(max(found[name]))
        else:
            assert ends.low.isnan().all()


def world(seed, items=1500, labels=6):
    """A full truth and scores that know something of it."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(items, labels)) * 1.5 - np.linspace(0.5, 2.5, labels)
    truth = generator.random((items, labels)) < 1 / (1 + np.exp(-logits))
    return torch.tensor(logits + 0.3 * generator.normal(size=logits.shape)), truth, generator


def real_numbers(logits, truth):
    full = Targets(torch.tensor(truth, dtype=torch.float32), torch.ones(truth.shape, dtype=torch.bool))
    counts = decisions.DecisionCounts.of(logits > 0, full)
    return {
        "mAP": mean_of_known(average_precision(logits, full)),
        "macro_F1": decisions.macro_f1(counts),
        "micro_precision": decisions.overall_precision(counts),
        "micro_recall": decisions.overall_recall(counts),
        "micro_F1": decisions.micro_f1(counts),
    }


@pytest.mark.parametrize(
    ("share_of_positives", "share_of_negatives", "kept"),
    [(0.5, 0.5, None), (0.6, 0.0, 0.6), (0.7, 0.1, 0.7)],
    ids=["both states alike", "positives alone", "negatives more rarely"],
)
def test_the_interval_covers_the_truth_of_hidden_labels(share_of_positives, share_of_negatives, kept):
    covered, tried, off = 0, 0, []
    for seed in range(12):
        logits, truth, generator = world(seed)
        share = np.where(truth, share_of_positives, share_of_negatives)
        observed = torch.tensor(generator.random(truth.shape) < share)
        partial = Targets(torch.tensor(truth, dtype=torch.float32), observed)
        found = partial_truth(logits, partial, kept=kept, draws=60)
        for name, value in real_numbers(logits, truth).items():
            low, high = found[name]["interval"]
            covered += low <= value <= high
            tried += 1
            off.append(found[name]["estimate"] - value)
            assert found[name]["bounds"][0] <= value <= found[name]["bounds"][1]
    assert covered / tried >= 0.9
    assert abs(np.mean(off)) < 0.01  # and the estimates lean to no side


def test_numbers_of_observed_entries_alone_mislead_where_estimates_do_not():
    logits, truth, generator = world(3)
    observed = generator.random(truth.shape) < np.where(truth, 0.7, 0.1)
    partial = Targets(torch.tensor(truth, dtype=torch.float32), torch.tensor(observed))
    found, real = partial_truth(logits, partial, kept=0.7, draws=50)["mAP"], real_numbers(logits, truth)["mAP"]
    assert found["observed"] > real + 0.1
    assert abs(found["estimate"] - real) < 0.03


def test_what_stands_under_an_unknown_label_changes_nothing():
    logits, truth, generator = world(0, items=200)
    observed = torch.tensor(generator.random(truth.shape) < 0.4)
    value = torch.tensor(truth, dtype=torch.float32)
    one = partial_truth(logits, Targets(value, observed), draws=20)
    other = partial_truth(logits, Targets(torch.where(observed, value, torch.nan), observed), draws=20)
    assert one == other


def test_with_everything_observed_bounds_and_estimate_are_the_value():
    logits, truth, _ = world(1, items=300)
    full = Targets(torch.tensor(truth, dtype=torch.float32), torch.ones(truth.shape, dtype=torch.bool))
    found = partial_truth(logits, full, draws=20)
    for name, value in real_numbers(logits, truth).items():
        assert found[name]["observed"] == pytest.approx(value)
        assert found[name]["bounds"] == pytest.approx([value, value])
        assert found[name]["estimate"] == pytest.approx(value)


def test_positives_alone_fix_recall_only():
    logits, truth, generator = world(2)
    observed = torch.tensor(truth & (generator.random(truth.shape) < 0.5))
    found = partial_truth(logits, Targets(torch.tensor(truth, dtype=torch.float32), observed), draws=30)
    assert found["mAP"]["estimate"] is None
    assert found["micro_precision"]["estimate"] is None
    low, high = found["micro_recall"]["interval"]
    assert low <= real_numbers(logits, truth)["micro_recall"] <= high
    assert "recall alone" in found["assumption"]


def test_a_share_out_of_range_is_refused():
    logits, truth, _ = world(2, items=20)
    with pytest.raises(UserError, match="above 0"):
        partial_truth(logits, targets(truth.astype(float).tolist()), kept=0.0)


@pytest.mark.parametrize(("kept", "word"), [(None, "estimate"), (0.5, "given, not checked")])
def test_a_run_with_partial_test_labels_says_so(kept, word, tmp_path):
    logits, truth, generator = world(4, items=240, labels=3)
    labels = np.where(generator.random(truth.shape) < 0.5, truth, np.nan)
    data = from_arrays(logits.float().numpy(), labels)
    told = [] if kept is None else [f"data.kept_in_test={kept}"]
    said = []
    record = run(compose(None, ["train.epochs=1", *told]), tmp_path / "run", data=data, message=said.append)
    found = json.loads((tmp_path / "run/record.json").read_text())["metrics"]["final"]["partial_truth"]
    assert found["mAP"]["interval"] == record["metrics"]["final"]["partial_truth"]["mAP"]["interval"]
    assert any(line.startswith("test: ") and word in line for line in said)


def test_a_test_part_without_positives_is_said_in_words():
    found = partial_truth(torch.zeros(3, 2), targets([[0.0, NAN], [NAN, 0.0], [0.0, 0.0]]), draws=5)
    assert sentence_on_partial_truth(found).endswith("no label has a positive among them, so mAP cannot be measured")
