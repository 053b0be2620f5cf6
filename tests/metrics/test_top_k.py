"""Numbers of the first places of a ranking, against loops over items."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from raretag.core.ranker import Known, Ranked
from raretag.metrics.cut import Cut, Sample, calibrated, checked_halves, decided, fit_cut, micro_f1
from raretag.metrics.top_k import RECALL, TopK, propensities, states

ITEMS, LABELS = 30, 25
RANDOM = np.random.default_rng(0)
TRUTH = RANDOM.random((ITEMS, LABELS)) < 0.2
TRUTH[3] = False  # an item without a positive
ORDER = np.argsort(RANDOM.random((ITEMS, LABELS)), axis=1)[:, :15].astype(np.int32)
RANKED = Ranked(ORDER, -np.sort(RANDOM.random(ORDER.shape)).astype(np.float32))
COUNTS = RANDOM.integers(0, 200, LABELS)
P = propensities(COUNTS, 1000)
GROUPS = {"head": torch.arange(5), "tail": torch.arange(5, LABELS)}


def by_hand(order, truth, k):
    """P@k, PSP@k and nDCG@k, item by item."""
    precision, part, whole, gain = [], 0.0, 0.0, []
    for row, labels in enumerate(order):
        if not truth[row].any():
            continue
        hits = [label >= 0 and bool(truth[row, label]) for label in labels[:k]]
        precision.append(sum(hits) / k)
        part += sum(1 / P[label] for label, hit in zip(labels[:k], hits, strict=True) if hit)
        whole += sum(sorted(1 / P[truth[row]], reverse=True)[:k])
        best = sum(1 / np.log2(2 + place) for place in range(min(k, truth[row].sum())))
        gain.append(sum(hit / np.log2(2 + place) for place, hit in enumerate(hits)) / best)
    return np.mean(precision), part / whole, np.mean(gain)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_the_first_places_are_what_a_loop_finds(k):
    found = TopK.of(RANKED, Known(sparse.csr_array(TRUTH)), P).numbers(GROUPS)
    assert [found[f"P@{k}"], found[f"PSP@{k}"], found[f"nDCG@{k}"]] == pytest.approx(by_hand(ORDER, TRUTH, k))
    assert found["items"] == TRUTH.any(axis=1).sum() < ITEMS


def test_recall_and_coverage_are_of_each_group():
    found = TopK.of(RANKED, Known(sparse.csr_array(TRUTH)), P).numbers(GROUPS)
    in_first = np.zeros_like(TRUTH)
    np.put_along_axis(in_first, ORDER[:, :RECALL], True, 1)
    for name, members in GROUPS.items():
        hits, truth = (in_first & TRUTH)[:, members.numpy()], TRUTH[:, members.numpy()]
        assert found["recall@10"][name] == pytest.approx(hits.sum() / truth.sum())
        assert found["coverage@10"][name] == pytest.approx(hits.any(0).sum() / truth.any(0).sum())


def test_blocks_of_items_add_up():
    known = Known(sparse.csr_array(TRUTH))
    parts = [
        TopK.of(Ranked(ORDER[rows], RANKED.scores[rows]), known.take(rows), P)
        for rows in np.array_split(np.arange(ITEMS), 4)
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    whole = TopK.of(RANKED, known, P).numbers(GROUPS)
    for key, value in total.numbers(GROUPS).items():
        assert value == pytest.approx(whole[key])


def test_an_unknown_label_is_taken_out_of_the_ranking():
    unknown = ~TRUTH & (RANDOM.random(TRUTH.shape) < 0.5)
    known = Known(sparse.csr_array(TRUTH), "negative", sparse.csr_array(unknown))
    left = [[label for label in row if not unknown[number, label]] for number, row in enumerate(ORDER)]
    order = np.array([(row + [-1] * 15)[:15] for row in left])
    assert TopK.of(RANKED, known, P).numbers(GROUPS)["P@5"] == pytest.approx(by_hand(order, TRUTH, 5)[0])
    assert (states(RANKED, known) == -1).sum() == np.take_along_axis(unknown, ORDER, 1).sum()


def test_rare_labels_have_low_propensities_and_all_are_shares():
    assert np.all(np.diff(propensities(np.array([0, 1, 10, 100, 10_000]), 50_000)) > 0)
    assert 0 < propensities(np.array([0]), 50_000)[0] < propensities(np.array([50_000]), 50_000)[0] <= 1


def sample(items=400, width=20, slope=1.5, seed=0):
    """Labels that are right with the probability sigmoid(slope s + 0.5 ln(1 + n) - 3)."""
    random = np.random.default_rng(seed)
    scores = -np.sort(-random.normal(size=(items, width)), axis=1).astype(np.float32)
    positives = random.integers(0, 50, (items, width))
    p = 1 / (1 + np.exp(-(slope * scores + 0.5 * np.log1p(positives) - 3)))
    state = (random.random(p.shape) < p).astype(np.int8)
    return Sample(scores, positives, state, state.sum(1).astype(np.int64) + 1)


def test_three_numbers_are_found_again():
    cut = calibrated(sample(4000))
    assert [cut.scale, cut.rarity, cut.shift] == pytest.approx([1.5, 0.5, -3.0], abs=0.1)


def test_the_threshold_is_the_best_of_all():
    some = sample()
    best = micro_f1(decided(fit_cut(some), some))["F1"]
    for threshold in np.linspace(0.01, 0.99, 99):
        assert micro_f1(decided(fit_cut(some, threshold=threshold), some))["F1"] <= best + 1e-9
    assert 0 < checked_halves(some)["F1"] <= best + 0.02


def test_a_precision_or_recall_is_reached():
    some = sample()
    assert micro_f1(decided(fit_cut(some, "precision", 0.6), some))["precision"] >= 0.6
    assert micro_f1(decided(fit_cut(some, "recall", 0.5), some))["recall"] >= 0.5
    with pytest.raises(Exception, match="no threshold reaches a recall of 1"):
        fit_cut(some, "recall", 1.0)


def test_unknown_labels_do_not_move_the_cut():
    some = sample()
    hidden = RANDOM.random(some.state.shape) < 0.3
    scores = np.where(hidden, 7.0, some.scores).astype(np.float32)
    state = np.where(hidden, -1, some.state).astype(np.int8)
    one, other = (fit_cut(Sample(s, some.positives, state, some.truth)) for s in (some.scores, scores))
    assert one == other


def test_scores_that_say_nothing_keep_their_order():
    some = sample(slope=-2.0)
    assert calibrated(some) == Cut()
