"""Networks of a blend know nothing of their fold, are served as one, and take part where items are many enough."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

import raretag
from raretag.core.listener import Listener
from raretag.models.heads.blended import Blended
from raretag.serve.export import export
from raretag.solvers import blend, network
from raretag.solvers.folds import deal
from raretag.solvers.learners import Task
from raretag.solvers.network import Network, batch_size, too_small_or_large, width_for
from raretag.solvers.newton import Products


def drawn(items=300, columns=12, labels=4, seed=0):
    """Labels that depend on the size of a column each, so that a line cannot tell them; noise on top."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(items, columns)).astype(np.float32)
    return x, np.abs(x[:, :labels]) + 0.3 * random.normal(size=(items, labels)) > 1.2


def task_of(x, y, counted=None, folds=4):
    positive = torch.from_numpy(y)
    given = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
    return Task(Products(given), positive, counted, deal(positive, folds, 0))


def test_it_finds_what_a_line_cannot_and_sparse_rows_give_the_same():
    x, y = drawn(600)
    one, other = (Network(task_of(rows, y), seed=1).held_out(48.0, Listener()) for rows in (x, sparse.csr_array(x)))
    hit = torch.from_numpy(y)
    assert all(one[hit[:, c], c].mean() > one[~hit[:, c], c].mean() + 1 for c in range(y.shape[1]))
    assert torch.allclose(one, other, atol=1e-3)


def test_the_head_is_the_mean_of_the_networks():
    x, y = drawn()
    learner = Network(task_of(x, y), seed=0)
    learner.held_out(3.0, Listener())
    fit = learner.fitted(3.0)
    head = Blended(x.shape[1], y.shape[1])
    head.fill(fit.weight, fit.bias)
    head.connect(fit.units.weight, fit.units.bias, fit.of_units)
    with torch.no_grad():
        expected = learner.scores(learner.hidden(learner.x)).mean(0)
        assert torch.allclose(head(torch.from_numpy(x)), expected, atol=1e-5)
        other, plain = Blended(x.shape[1], y.shape[1]), Blended(x.shape[1], y.shape[1])
        other.load_state_dict(head.state_dict())
        assert torch.equal(other(torch.from_numpy(x)), head(torch.from_numpy(x)))
        other.load_state_dict(plain.state_dict())  # and away again
        assert other.hidden is None


def test_a_path_keeps_what_it_may_go_back_to():
    x, y = drawn(60)
    learner = Network(task_of(x, y), seed=0)
    for strength in learner.strengths[:6]:
        learner.held_out(strength, Listener())
    assert list(learner.kept) == list(learner.strengths[2:6])
    assert learner.epochs == learner.strengths[5]


def test_labels_of_a_fold_do_not_reach_its_own_scores():
    x, y = drawn()
    task = task_of(x, y)
    held = Network(task, seed=0).held_out(3.0, Listener())
    rows = (task.fold == 2).nonzero().flatten()
    positive = task.positive.clone()
    positive[rows] = positive[rows.roll(1)]  # as many of each label
    again = Network(Task(task.products, positive, None, task.fold), seed=0).held_out(3.0, Listener())
    assert torch.equal(again[rows], held[rows])
    assert not torch.equal(again, held)


def test_what_is_not_counted_teaches_nothing():
    x, y = drawn()
    counted = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.6
    other = torch.from_numpy(y) ^ ~counted
    scores = []
    for positive in (torch.from_numpy(y) & counted, other & counted):
        task = Task(Products(torch.from_numpy(x)), positive, counted, deal(torch.from_numpy(y), 4, 0))
        scores.append(Network(task, seed=0).held_out(3.0, Listener()))
    assert torch.equal(*scores)


@pytest.mark.parametrize(
    ("items", "columns", "labels", "reason"),
    [
        (2_999, 100, 10, "fewer than 3,000 items"),
        (3_000, 100, 10, ""),
        (3_000, 100_000, 10, ""),
        (3_000, 200_000, 10, "more than 104,857 columns"),
        (10**6, 100, 1_000, "an epoch of 1,000,000 items would take too long"),
    ],
)
def test_where_there_is_no_network(items, columns, labels, reason):
    class Shape:
        filled = items * min(columns, 50)

    Shape.items, Shape.columns = items, columns
    task = Task(Shape, torch.empty(1, labels).expand(items, labels), None, torch.tensor([4]))
    assert too_small_or_large(task) == reason


@pytest.mark.parametrize(("trees", "columns", "taken"), [(0, 2000, True), (50, 2000, False), (50, 1000, True)])
def test_wide_sparse_rows_with_a_forest_get_no_network(trees, columns, taken, monkeypatch):
    monkeypatch.setattr(network, "FEWEST", 10)
    monkeypatch.setattr(blend, "affordable", lambda *_: trees)
    x = sparse.random_array((40, columns), density=0.01, format="csr", dtype=np.float32, rng=0)
    y = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)) < 0.3
    learners, left_out = blend.Blend().learners(Task(Products(x), y, None, deal(y, 5, 0)))
    assert ("network" in {one.name for one in learners}) == taken == ("network" not in left_out)


def test_more_columns_get_fewer_units_and_more_items_larger_batches():
    assert [width_for(columns, 5) for columns in (100, 20_000, 10**6)] == [128, 83, 16]
    assert [batch_size(items) for items in (100, 20_000, 40_000, 10**6)] == [128, 156, 312, 512]


def test_a_run_with_networks_serves(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "FEWEST", 10)
    monkeypatch.setattr(Network, "strengths", (3.0, 4.0))
    monkeypatch.setattr(blend, "affordable", lambda *_: 0)
    monkeypatch.setattr(blend, "with_guest", lambda scores, guest, *_: (0.3, 0.7 * scores + 0.3 * guest))
    x, y = drawn(120)
    raretag.train((x, y.astype(np.float32)), out=tmp_path / "a", listener=Listener())
    model = raretag.load(tmp_path / "a")
    assert model.network.model.head.hidden is not None
    assert export(model, tmp_path / "model.onnx") < 1e-3
