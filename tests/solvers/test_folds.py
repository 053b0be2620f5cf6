"""Folds hold each rare positive out once, and scores of different folds can be compared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.metrics import average_precision_score

from raretag.core.listener import Listener
from raretag.solvers.folds import Judge, along_path, deal, standardised
from raretag.solvers.kernel import KernelRidge, centred_labels, squared_distances


def labels(items=200, count=6, seed=0):
    random = np.random.default_rng(seed)
    return torch.from_numpy(random.random((items, count)) < np.geomspace(0.02, 0.4, count))


def test_every_label_is_spread_over_the_folds():
    positive = labels()
    fold = deal(positive, 5, seed=1)
    assert torch.bincount(fold, minlength=5).max() - torch.bincount(fold, minlength=5).min() <= 4
    for label in range(positive.shape[1]):
        held = torch.bincount(fold[positive[:, label]], minlength=5)
        assert held.max() - held.min() <= 1 + label  # exact for the rarest, close for those that come later
    assert torch.equal(fold, deal(positive, 5, seed=1))
    assert not torch.equal(fold, deal(positive, 5, seed=2))


def test_a_label_with_two_positives_has_them_in_two_folds():
    positive = torch.zeros(50, 30, dtype=torch.bool)
    for label in range(25):
        positive[[label, label + 25], label] = True
    fold = deal(positive, 3, seed=0)
    assert all(fold[label] != fold[label + 25] for label in range(25))


def test_many_labels_are_dealt_in_time_linear_in_their_positives():
    places = torch.randint(30_000, (60_000,), generator=torch.Generator().manual_seed(0))
    positive = torch.zeros(3_000, 30_000, dtype=torch.bool)
    positive[torch.arange(60_000) % 3_000, places] = True
    assert torch.bincount(deal(positive, 5, seed=0)).tolist() == pytest.approx([600] * 5, abs=60)


def test_scores_of_a_fold_have_mean_0_and_deviation_1():
    random = np.random.default_rng(0)
    fold = torch.from_numpy(random.integers(0, 3, 90))
    z = torch.from_numpy(random.normal(size=(90, 2))) * (1 + fold[:, None]) + 10.0 * fold[:, None]
    z[fold == 1, 1] = -4.0  # nothing was learned there
    held = standardised(z, fold)
    for label, known in ((0, [0, 1, 2]), (1, [0, 2])):
        parts = {k: z[fold == k, label].numpy() for k in known}
        for k, part in parts.items():
            expected = (part - part.mean()) / part.std()
            assert np.allclose(held.scores[fold == k, label], expected)
        assert float(held.mean[label]) == pytest.approx(np.mean([part.mean() for part in parts.values()]))
        assert float(held.spread[label]) == pytest.approx(np.mean([part.std() for part in parts.values()]))
    assert not held.scores[fold == 1, 1].any()


def test_the_judge_is_average_precision_on_what_is_counted():
    random = np.random.default_rng(0)
    positive, scores = labels(), torch.from_numpy(random.normal(size=(200, 6)))
    positive[:, 0] = torch.arange(200) == 3  # one positive: nothing to be judged by
    counted = positive | torch.from_numpy(random.random((200, 6)) < 0.5)
    for mask in (None, counted):
        found = Judge(positive, mask).precisions(scores)
        for at, label in enumerate(range(1, 6)):
            rows = slice(None) if mask is None else mask[:, label]
            expected = average_precision_score(positive[rows, label], scores[rows, label])
            assert float(found[at]) == pytest.approx(expected)


def test_differences_are_paired_over_labels_and_rare_labels_count_less():
    counts = (4, 1, 9, 16)  # one positive: not judged
    judge = Judge(torch.arange(20)[:, None] < torch.tensor(counts), None)
    best, other = torch.tensor([0.5, 0.7, 0.9]).double(), torch.tensor([0.4, 0.7, 0.7]).double()
    apart, weights = np.array([0.1, 0.0, 0.2]), np.array([2, 3, 4]) / 9
    below = (weights * apart).sum()
    error = np.sqrt((weights**2 * (apart - below) ** 2).sum())
    assert judge.behind(best, other) == pytest.approx((below, error))
    assert judge.worth(best) - judge.worth(other) == pytest.approx(below)
    assert not judge.is_close(best, other)
    assert judge.is_close(best, best)


def test_labels_that_are_equally_frequent_have_the_plain_standard_error():
    judge = Judge(torch.arange(20)[:, None] < torch.tensor([5, 5, 5]), None)
    apart = torch.tensor([0.1, 0.0, 0.2]).double()
    error = float(apart.std(unbiased=False)) / np.sqrt(3)
    assert judge.behind(apart, torch.zeros(3).double()) == pytest.approx((0.1, error))


def test_the_stiffest_of_those_that_are_close_is_chosen_and_the_path_ends():
    positive, truth = labels(400), labels(400).double()
    fold = deal(positive, 4, seed=0)
    noise = torch.randn(400, 6, generator=torch.Generator().manual_seed(0)).double()
    amounts = {1: 3.0, 2: 1.0, 3: 1.0, 4: 2.0, 5: 9.0, 6: 1.0}  # strength 2 is as good as 3
    asked = []

    def fit(strength, listener):
        asked.append(strength)
        return truth + amounts[strength] * noise

    tried, means = along_path(fit, [1, 2, 3, 4, 5, 6], fold, Judge(positive, None), Listener())
    assert tried.strength == 2
    assert asked in ([1, 2, 3, 4], [1, 2, 3, 4, 5])
    assert list(means) == [str(one) for one in asked]


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_fold_left_out_of_the_kernel_is_a_fit_without_it(form):
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 5)) * (random.random((60, 5)) < 0.6)
    y, fold = centred_labels(labels(60, 4), None), torch.arange(60) % 3
    ridge = KernelRidge(torch.from_numpy(x) if form == "dense" else sparse.csr_array(x), 2.0)
    distance = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)) / 2
    kernel = np.exp(-distance)
    middle = np.eye(60) - 1 / 60
    h = middle @ kernel @ middle
    h /= np.trace(h) / 60
    a, z = (found.numpy() for found in ridge.solved(y, 0.5, fold))
    y, fold = y.numpy(), fold.numpy()
    assert np.allclose(a, np.linalg.solve(h + 0.5 * np.eye(60), y), atol=1e-3)
    for k in range(3):
        rest, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        refit = np.linalg.solve(h[np.ix_(rest, rest)] + 0.5 * np.eye(len(rest)), y[rest])
        assert np.allclose(z[held], h[np.ix_(held, rest)] @ refit, atol=1e-3)


def test_a_path_that_brings_nothing_more_ends():
    positive = labels(400)
    fold, asked = deal(positive, 4, seed=0), []

    def fit(strength, listener):
        asked.append(strength)
        return positive + torch.randn(400, 6, generator=torch.Generator().manual_seed(0)).double()

    tried, _ = along_path(fit, [1, 2, 3, 4, 5, 6], fold, Judge(positive, None), Listener())
    assert tried.strength == 1
    assert asked == [1, 2, 3, 4]


def test_distances_are_exact_for_rows_far_from_0():
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    assert np.allclose(squared_distances(x + 1000), torch.cdist(x, x) ** 2, atol=1e-2)


def test_centred_labels_know_only_what_is_counted():
    positive = torch.tensor([[True], [False], [False], [False]])
    counted = torch.tensor([[True], [True], [False], [True]])
    assert centred_labels(positive, counted).flatten().tolist() == pytest.approx([2 / 3, -1 / 3, 0, -1 / 3])
