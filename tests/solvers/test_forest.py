"""A forest is the mean of its trees and has not seen a held-out fold; the head gives what scikit-learn's trees give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from raretag.core.listener import Listener
from raretag.models.heads.blended import Blended
from raretag.models.heads.trees import Trees
from raretag.solvers import forest
from raretag.solvers.folds import deal
from raretag.solvers.forest import Forest, affordable, frequencies, joined, most_frequent, tables_of
from raretag.solvers.learners import Task
from raretag.solvers.newton import Products


def conjunctions(items=300, columns=12, labels=4, seed=0):
    """Labels that two columns carry together: a line cannot tell them."""
    random = np.random.default_rng(seed)
    x = (random.random((items, columns)) < 0.4).astype(np.float32)
    y = np.stack([x[:, 2 * c].astype(bool) ^ x[:, 2 * c + 1].astype(bool) for c in range(labels)], 1)
    return x, y


def task_of(x, y, counted=None, folds=4):
    positive = torch.from_numpy(y)
    given = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
    return Task(Products(given), positive, counted, deal(positive, folds, 0))


def test_the_head_is_the_mean_of_the_trees_of_scikit_learn():
    from sklearn.tree import ExtraTreeRegressor

    x, y = conjunctions()
    new, _ = conjunctions(seed=1)
    grown, expected = [], np.zeros((len(new), y.shape[1]))
    for seed in range(5):
        tree = ExtraTreeRegressor(max_features=0.5, random_state=seed).fit(x[:200], y[:200].astype(float))
        nodes = tree.apply(x[:200])
        grown.append(tables_of(tree.tree_, frequencies(nodes, tree.tree_.node_count, y[:200], None)))
        ended = tree.apply(new)
        expected += np.stack([y[:200][nodes == node].mean(0) for node in ended]) / 5
    trees = Trees(y.shape[1])
    trees.fill(joined(grown))
    assert np.allclose(trees(torch.from_numpy(new)).numpy(), expected, atol=1e-3)  # values are kept in half precision


@pytest.mark.parametrize("thin", [False, True])
def test_it_finds_what_a_line_cannot(thin):
    x, y = conjunctions()
    given = x
    if thin:
        given = sparse.csr_array(x)
        given.indices, given.indptr = given.indices.astype(np.int64), given.indptr.astype(np.int64)
    one = Forest(task_of(given, y), 40, seed=3).held_out(1.0, Listener())
    hit = torch.from_numpy(y)
    assert all(one[hit[:, c], c].mean() > one[~hit[:, c], c].mean() + 0.15 for c in range(y.shape[1]))
    assert torch.equal(Forest(task_of(given, y), 40, seed=3).held_out(1.0, Listener()), one)


def test_labels_of_a_fold_do_not_reach_its_own_scores():
    x, y = conjunctions()
    task = task_of(x, y)
    held = Forest(task, 8, seed=0).held_out(1.0, Listener())
    rows = (task.fold == 2).numpy()
    changed = y.copy()
    changed[rows] = ~changed[rows]
    positive = torch.from_numpy(changed)
    again = Forest(Task(task.products, positive, None, task.fold), 8, seed=0)
    monkey = forest.rare_weighted
    try:  # means and deviations of the labels are those of all items: a fold tells as much as one item in N
        forest.rare_weighted = lambda _: monkey(task)
        assert torch.equal(again.held_out(1.0, Listener())[rows], held[rows])
    finally:
        forest.rare_weighted = monkey


def test_frequencies_leave_out_what_is_not_counted():
    positive = np.array([[1, 0], [0, 0], [1, 1]], bool)
    counted = np.array([[1, 1], [0, 1], [1, 0]], bool)
    nodes = np.array([2, 2, 1])
    assert frequencies(nodes, 3, positive, None).toarray().tolist() == [[0, 0], [1, 1], [0.5, 0]]
    assert frequencies(nodes, 3, positive & counted, counted).toarray().tolist() == [[0, 0], [1, 0], [1, 0]]


def test_a_leaf_keeps_its_most_frequent_labels(monkeypatch):
    monkeypatch.setattr(forest, "KEPT", 2)
    label, value = most_frequent(sparse.csr_array(np.array([[0.2, 0.0, 0.5, 0.5], [0.0, 0.1, 0.0, 0.0]])))
    assert label.tolist() == [[2, 3], [1, 0]]
    assert value.tolist() == [[0.5, 0.5], [pytest.approx(0.1), 0.0]]


def test_fewer_trees_for_more_items_and_none_where_they_would_be_too_few():
    assert affordable(1_000, 1_000, 50, 10**5) == forest.TREES
    assert affordable(10**6, 10**4, 1_000, 10**8) == 0
    counts = [affordable(items, 1_000, 30, 100 * items) for items in (1_000, 10_000, 20_000, 40_000)]
    assert counts == sorted(counts, reverse=True)
    cheap = [affordable(2_000, 1_000, 20, filled) for filled in (10**4, 10**5, 10**6)]  # a line that costs little
    assert cheap[0] == forest.FEWEST < cheap[1] < cheap[2] == forest.TREES


def test_heads_with_and_without_trees_come_back_from_their_tensors():
    x, y = conjunctions()
    learner = Forest(task_of(x, y), 8, seed=0)
    learner.held_out(1.0, Listener())
    fit = learner.fitted(1.0)
    for mixing in (torch.ones(4), torch.eye(4)):
        head = Blended(x.shape[1], 4)
        plain = Blended(x.shape[1], 4)
        plain.load_state_dict(head.state_dict())
        head.plant(fit.trees, mixing)
        other = Blended(x.shape[1], 4)
        other.load_state_dict(head.state_dict())
        rows = torch.from_numpy(x[:20])
        assert torch.equal(other(rows), head(rows))
        assert not torch.equal(plain(rows), head(rows))
        other.load_state_dict(plain.state_dict())
        assert torch.equal(other(rows), plain(rows))
