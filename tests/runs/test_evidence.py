"""What a run keeps to explain itself."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from raretag.core.context import Context
from raretag.core.method import build_method
from raretag.core.targets import LabelStatistics, Targets
from raretag.labels.store import LabelStore
from raretag.runs import evidence

three_states = hnp.arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 7)), elements=st.sampled_from([0, 1]))


@given(three_states, st.data())
@settings(max_examples=50, deadline=None)
def test_labels_come_back_from_their_bits_in_all_three_states(value, data):
    observed = data.draw(hnp.arrays(np.bool_, value.shape))
    kept = evidence.packed("test", Targets(torch.from_numpy(value), torch.from_numpy(observed)))
    assert sum(tensor.numel() for name, tensor in kept.items() if "shape" not in name) <= 2 * (value.size // 8 + 1)
    back = evidence.unpacked("test", kept)
    assert torch.equal(back.observed, torch.from_numpy(observed))
    assert torch.equal(back.positive, torch.from_numpy(np.where(observed, value, 0)))


def test_labels_of_a_split_that_was_not_kept_are_none():
    assert evidence.unpacked("test", {}) is None


def test_likely_missing_labels_are_unknown_and_in_order_of_probability():
    random = np.random.default_rng(0)
    dense = np.where(random.random((30, 4)) < 0.5, np.nan, random.random((30, 4)) < 0.4)
    dense[:, 3] = 1.0  # nothing is unknown here
    truth = LabelStore.from_dense((random.random((30, 4)) < 0.5).astype(float))
    store, rows = LabelStore.from_dense(dense), torch.arange(0, 30, 2)
    logits = torch.from_numpy(random.normal(size=(15, 4))).float()
    kept = evidence.likely_missing(logits, rows, store, truth)
    for label in range(4):
        unknown = [
            (float(logits[at, label]), row) for at, row in enumerate(rows.tolist()) if np.isnan(dense[row, label])
        ]
        best = [row for _, row in sorted(unknown, reverse=True)][: evidence.LIKELY]
        found = [row for row in kept["missing_rows"][label].tolist() if row >= 0]
        assert found == best
        for place, row in enumerate(found):
            assert kept["missing_truth"][label, place] == truth.targets(torch.tensor([row])).value[0, label]
    assert (kept["missing_rows"][3] == -1).all()


def test_where_nothing_is_unknown_the_negatives_are_searched():
    store = LabelStore.from_dense(np.array([[1, 0], [0, 1], [0, 0]]))
    rows = evidence.rows_to_search(store)
    kept = evidence.likely_missing(torch.tensor([[9.0, 2.0], [1.0, 9.0], [3.0, 0.0]]), rows, store, None)
    assert kept["missing_rows"].tolist() == [[2, 1, -1], [0, 2, -1]]
    assert (kept["missing_truth"] == -1).all()


def test_labels_that_occur_together_are_counted():
    labels = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]])
    kept = evidence.often_together(LabelStore.from_dense(labels).statistics().cooccurrence)
    assert kept["together_labels"][0].tolist()[:2] == [1, 2]
    assert kept["together_counts"][0].tolist()[:2] == [2, 1]
    assert kept["together_counts"][2].tolist()[:2] == [1, 0]


def test_a_method_tells_which_missing_labels_it_trains_as_positives():
    statistics = LabelStatistics(torch.tensor([9, 9]), torch.tensor([0, 0]), 20)
    targets = Targets(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[True, False], [False, False]]))
    logits = torch.tensor([[5.0, 5.0], [-5.0, 5.0]])
    options = {"base": "assume_negative", "warm_up": 0.0, "cap": None, "mean_of": "batch"}
    method = build_method("reflective_correction", statistics, items=2, seed=0, **options)
    options = {"balance": False, "warm_up": 0.0, "cap": None}
    comic = build_method("comic", statistics, items=2, seed=0, **options)
    assert not build_method("assume_negative", statistics, items=2, seed=0).found_missing(logits, targets).any()
    context = Context(index=torch.arange(2))
    shifted = logits - torch.tensor([0.0, 1.0])[:, None]  # the mean of a batch is a bar that its best must clear
    assert method.found_missing(shifted, targets, context).tolist() == [[False, True], [False, False]]
    before = {name: tensor.clone() for name, tensor in comic.state_dict().items()}
    assert comic.found_missing(logits, targets, context).tolist() == [[False, True], [False, True]]
    assert all(torch.equal(tensor, before[name]) for name, tensor in comic.state_dict().items())


def test_inner_numbers_of_each_label_are_told_after_an_epoch():
    statistics = LabelStatistics(torch.tensor([8, 2]), torch.tensor([2, 8]), 10)
    method = build_method("partial_label_masking", statistics, items=10, seed=0, rate=0.5)
    assert method.label_signs()["ratio"].tolist() == [4.0, 0.25]
    assert method.label_signs()["ratio_change"].tolist() == [1.0, 1.0]
    targets = Targets(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.ones(2, 2, dtype=torch.bool))
    method.loss(torch.tensor([[3.0, -3.0], [-1.0, -2.0]]), targets, Context(index=torch.arange(2)))
    method.end_epoch(Context(epochs=2))
    ratio = method.label_signs()["ratio_change"]
    signs = method.vital_signs()
    assert float(ratio.min()) == signs["ratio_lowest"]
    assert float(ratio.max()) == signs["ratio_highest"]
    assert ratio[0] != ratio[1]
