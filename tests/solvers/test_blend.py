"""The blend is the sum it says, is never below plain logistic regression out of fold, and serves like any model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import raretag
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.registry import build
from raretag.core.targets import Targets
from raretag.data.arrays import from_arrays
from raretag.models.heads.blended import Blended
from raretag.serve.export import export
from raretag.solvers import blend
from raretag.solvers.blend import (
    Blend,
    Companions,
    Stack,
    counted_entries,
    held_out_companions,
    shares_of,
    stacked,
    summed,
    with_guest,
)
from raretag.solvers.folds import HeldOut, Judge, Tried, along_path, deal, mean, standardised
from raretag.solvers.kernel import too_large
from raretag.solvers.learners import Fitted, Kernel, Task
from raretag.solvers.newton import Products, without_typical_negatives
from support.runs import run


def rings(items=240, labels=4, seed=0):
    """Labels by the distance from a point each, so that a kernel knows more than a line; the last has no positives."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(items, 5)).astype(np.float32)
    centres = random.normal(size=(labels, 5))
    y = ((x[:, None] - centres[None]) ** 2).sum(-1) < np.linspace(3, 6, labels)
    y[:, -1] = False
    return torch.from_numpy(x), torch.from_numpy(y).float()


def filled(x, y, observed=None, values=None, **options):
    """The head that a blend fills, the solver, and scores out of fold."""
    observed = torch.ones_like(y, dtype=torch.bool) if observed is None else observed
    targets = Targets(y * observed if values is None else values, observed)
    head = build("models.heads", "blended", {}, features=x.shape[1], labels=y.shape[1])
    solver = Blend(**options)
    held = solver.solve(lambda: iter([(x, targets)]), head, Listener())
    return head, solver, held


def tried(scores, judge, fold):
    held = standardised(scores, fold)
    return Tried(1.0, held, judge.precisions(held.scores))


def test_what_is_out_of_fold_is_on_the_scale_of_the_answer():
    x, y = rings(400)
    head, solver, held = filled(x, y)
    other, truth = rings(2000, seed=0)
    assert held.shape == y.shape
    assert "kernel" in solver.learned()["shares"]
    fresh = head(other)[:, :-1]
    assert torch.allclose(held[:, :-1].mean(0), fresh.mean(0), atol=0.4)
    assert torch.allclose(held[:, :-1].std(0), fresh.std(0), rtol=0.35)
    assert truth.shape == head(other).shape


def test_a_label_without_positives_is_unlikely_everywhere():
    x, y = rings()
    head, _, held = filled(x, y)
    assert (head(x)[:, -1] < -4).all()
    assert (held[:, -1] == head(x)[0, -1]).all()


def test_shares_fall_with_the_distance_to_the_best_in_standard_errors():
    random = np.random.default_rng(0)
    best = random.uniform(0.3, 0.9, 20)
    others = {"best": best, "near": best - random.uniform(0, 0.1, 20), "far": best - 0.2 - random.uniform(0, 0.1, 20)}
    judge = Judge(torch.ones(5, 20, dtype=torch.bool), None)  # labels that are equally frequent
    found = shares_of({name: torch.from_numpy(one) for name, one in others.items()}, judge)
    t = (best - others["near"]).mean() / ((best - others["near"]).std() / np.sqrt(20))
    assert set(found) <= {"best", "near"}
    expected = np.exp(-t) / (1 + np.exp(-t))
    assert found.get("near", 0.0) == pytest.approx(expected if expected >= 0.02 else 0.0)
    equal = shares_of({"one": torch.from_numpy(best), "two": torch.from_numpy(best)}, judge)
    assert equal == {"one": 0.5, "two": 0.5}


def naive_companions(positive):
    y = positive.double().numpy()
    count, items = y.sum(0), len(y)
    frequency = count / items
    found = ((y.T @ y) + frequency[None]) / (count[:, None] + 1) - frequency[None]
    np.fill_diagonal(found, 0)
    return found


def test_companions_are_the_formula_and_know_nothing_of_their_fold():
    random = np.random.default_rng(0)
    positive = torch.from_numpy(random.random((80, 6)) < 0.2)
    scores = torch.from_numpy(random.normal(size=(80, 6))).float()
    assert np.allclose(Companions(positive).of(scores.T), naive_companions(positive) @ scores.T.numpy(), atol=1e-5)
    fold = torch.arange(80) % 4
    moved = held_out_companions(scores, positive, fold)
    for k in range(4):
        expected = scores[fold == k].numpy() @ naive_companions(positive[fold != k]).T
        assert np.allclose(moved[fold == k], expected, atol=1e-5)


def test_the_sum_of_all_fits_is_the_sum_of_their_scores():
    random = np.random.default_rng(0)

    def normal(*shape):
        return torch.from_numpy(random.normal(size=shape)).float()

    positive = torch.from_numpy(random.random((30, 4)) < 0.3)
    fits = {"a": Fitted(normal(4, 3), normal(4)), "b": Fitted(torch.zeros(4, 3), normal(4), normal(4, 30))}
    held = {name: HeldOut(normal(30, 4), normal(4), normal(4).abs() + 0.1) for name in fits}
    results = {name: Tried(1.0, one, torch.zeros(4)) for name, one in held.items()}
    total = summed(Stack({"a": 0.3, "b": 0.7}, 0.4, normal(30, 4), 0.0, {}), fits, results, positive)
    x, k = normal(9, 3), normal(9, 30)
    z = {"a": x @ fits["a"].weight.T + fits["a"].bias, "b": k @ fits["b"].of_items.T + fits["b"].bias}
    score = sum(
        share * (z[name] - held[name].mean) / held[name].spread for name, share in (("a", 0.3), ("b", 0.7))
    ).numpy()
    expected = score + 0.4 * score @ naive_companions(positive).T
    assert np.allclose(x @ total.weight.T + total.bias + k @ total.of_items.T, expected, atol=1e-4)


def noisy(noises, seed):
    """The truth and learners that see it through noise: what `stacked` takes."""
    random = np.random.default_rng(seed)
    positive = torch.from_numpy(random.random((120, 3)) < 0.2)
    fold, judge = deal(positive, 4, 0), Judge(positive, None)
    return (
        fold,
        judge,
        {
            name: tried(positive + noise * torch.from_numpy(random.normal(size=(120, 3))).float(), judge, fold)
            for name, noise in noises.items()
        },
    )


def test_never_clearly_below_the_plain_thing():
    for seed in range(20):
        fold, judge, results = noisy({"plain": 0.8, "other": 0.7}, seed)
        stack = stacked(results, "plain", judge, fold)
        below, error = judge.behind(results["plain"].precisions, judge.precisions(stack.scores))
        assert below <= error + 1e-9
        assert stack.precision == pytest.approx(mean(judge.precisions(stack.scores)))


def test_a_blend_that_is_clearly_worse_is_not_used(monkeypatch):
    fold, judge, results = noisy({"plain": 0.2, "other": 5.0}, 0)
    monkeypatch.setattr(blend, "shares_of", lambda found, _: {"other": 1.0} if "other" in found else {0.0: 1.0})
    stack = stacked(results, "plain", judge, fold)
    assert stack.shares == {"plain": 1.0}
    assert stack.scores is results["plain"].held_out.scores


def test_a_guest_may_be_below_the_others_by_as_many_standard_errors_as_its_share_allows():
    _, judge, results = noisy({"plain": 0.5, "other": 3.0}, 0)
    scores, guest = (results[name].held_out.scores for name in ("plain", "other"))
    below, error = judge.behind(judge.precisions(scores), judge.precisions(0.6 * scores + 0.4 * guest))
    errors = below / error
    assert errors > 0
    assert with_guest(scores, guest, {0.4: 0.99 * errors}, judge)[0] == 0.0
    assert with_guest(scores, guest, {0.4: 1.01 * errors}, judge)[0] == 0.4


def test_companions_are_as_strong_as_a_mean_of_strengths_weighted_by_their_precision():
    fold, judge, results = noisy({"plain": 1.0}, 0)
    scores = results["plain"].held_out.scores
    moved = held_out_companions(scores, judge.positive, fold)
    found = {a: judge.precisions(scores + a * moved).numpy() for a in (0.0, 0.2, 0.4, 0.8)}
    of_labels = np.sqrt(judge.positive.sum(0).numpy())
    of_labels /= of_labels.sum()
    best = max(found.values(), key=lambda one: (of_labels * one).sum())
    below = {a: (of_labels * (best - one)).sum() for a, one in found.items()}
    errors = {a: np.linalg.norm(of_labels * (best - one - below[a])) for a, one in found.items()}
    weights = {a: np.exp(-below[a] / max(errors[a], 1e-4)) for a in found}
    expected = sum(a * weight for a, weight in weights.items()) / sum(weights.values())
    stack = stacked(results, "plain", judge, fold)
    assert 0 < expected < 0.8
    assert stack.companions == pytest.approx(expected, rel=0.05)  # faint weights are left out
    assert torch.allclose(stack.scores, scores + stack.companions * moved)


def test_the_kernel_finds_what_a_line_does_not_and_quick_is_the_line_alone():
    x, y = rings(600)
    head, solver, _ = filled(x, y)
    line, quick, _ = filled(x, y, effort="quick")
    assert len(head.landmarks) == 600
    assert len(line.landmarks) == 0
    assert solver.learned()["out_of_fold_mAP"] > quick.learned()["out_of_fold_mAP"] + 0.05
    assert quick.learned()["shares"] == {"logistic": 1.0}
    assert "held-out folds" in solver.learned()["summary"]


def test_thin_landmarks_are_stored_thin_and_give_the_same():
    random = torch.Generator().manual_seed(0)
    items = torch.zeros(50, 400).scatter_(1, torch.randint(400, (50, 5), generator=random), 1.0)
    share, x = torch.randn(3, 50, generator=random), torch.rand(7, 400, generator=random)
    head = Blended(400, 3)
    head.keep(csr_array(items.numpy()), torch.zeros(400), 2.0, share)
    expected = head.classify(x) + torch.exp(-torch.cdist(x / 2, items / 2)) @ share.T
    state = head.state_dict()
    assert sum(one.numel() for name, one in state.items() if "thin" in name) == 3 * int(items.count_nonzero())
    before = {name: one for name, one in state.items() if "thin" not in name}  # as earlier versions stored it
    before["landmarks"] = items / 2
    for stored in (state, before):
        opened = Blended(400, 3)
        opened.load_state_dict(stored)
        torch.testing.assert_close(opened(x), expected)
        assert opened.state_dict().keys() == state.keys()
        torch.testing.assert_close(copy.deepcopy(opened).double()(x.double()).float(), expected)
        torch.testing.assert_close(torch.export.export(opened, (x,)).module()(x), expected)
    with pytest.raises(UserError, match=r"a matrix of \(50, 400\) has no place"):  # it would be read beyond its end
        Blended(400, 3).load_state_dict({**state, "thin.column": state["thin.column"] + 400})
    head.keep(csr_array(items.numpy() + 1), torch.zeros(400), 2.0, share)
    assert head.thin is None
    torch.testing.assert_close(head(x), head.classify(x) + torch.exp(-torch.cdist(x / 2, (items + 1) / 2)) @ share.T)


def test_a_part_of_many_items_chooses_the_strength_of_the_kernel(monkeypatch):
    x, y = rings(600)
    task = Task(Products(x), y.bool(), None, deal(y.bool(), 5, 0))
    whole, _ = along_path(Kernel(task).held_out, Kernel.strengths, task.fold, Judge(y.bool(), None), Listener())
    monkeypatch.setattr("raretag.solvers.learners.PATH_ITEMS", 200)
    (chosen,) = Kernel(task).strengths
    places = [Kernel.strengths.index(one) for one in (chosen, whole.strength)]
    assert abs(places[0] - places[1]) <= 2


def test_no_kernel_where_it_does_not_fit(monkeypatch):
    monkeypatch.setattr("raretag.solvers.kernel.MOST_ITEMS", 100)
    head, solver, _ = filled(*rings())
    assert len(head.landmarks) == 0
    assert "no kernel: more than 100 items" in solver.learned()["summary"]


def test_a_kernel_of_wide_texts_counts_only_what_it_keeps():
    assert "keep 120,000,000 numbers" in too_large(5_000, 24_000, filled=5_000 * 600)
    assert not too_large(5_000, 24_000, filled=5_000 * 100)


def test_what_is_unknown_does_not_matter():
    x, y = rings()
    observed = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.7
    one, _, held = filled(x, y, observed)
    poisoned = torch.where(observed, y, torch.nan)
    other, _, held_too = filled(x, y, observed, values=poisoned)
    assert torch.equal(one(x), other(x))
    assert torch.equal(held, held_too)
    assert one(x).isfinite().all()


def test_unknown_is_negative_only_where_no_negative_is_observed():
    positive = torch.tensor([[True, True], [False, False], [False, False]])
    observed = torch.tensor([[True, True], [False, True], [False, False]])
    products = Products(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    assert counted_entries(products, positive, observed).tolist() == [[True, True], [True, True], [True, False]]
    assert counted_entries(products, positive, torch.ones(3, 2, dtype=torch.bool)) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_rejected_suggestions_are_no_typical_negatives(sparse):
    """Answers "no" to items that look like positives must not be all that a label knows of negatives."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=generator)
    score = x[:, :2] + 0.3 * torch.randn(300, 2, generator=generator)
    positive = score > 1.5
    marked = positive & (torch.rand(300, 2, generator=generator) < 0.5)
    products = Products(csr_array(x.numpy()) if sparse else x)
    random = ~positive & (torch.rand(300, 2, generator=generator) < 0.3)
    likely = ~positive & (score > 0.9)
    assert without_typical_negatives(products, marked, marked | random).tolist() == [False, False]
    assert without_typical_negatives(products, marked, marked | likely).tolist() == [True, True]


def test_the_same_seed_gives_the_same_answer_and_units_do_not_matter():
    x, y = rings()
    one, _, _ = filled(x, y, seed=5)
    assert torch.equal(one(x), filled(x, y, seed=5)[0](x))
    for unit in (1e-3, 1e3):
        torch.testing.assert_close(filled(x * unit, y, seed=5)[0](x * unit), one(x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("items", [2, 3, 7])
def test_a_few_items_are_enough_to_go_on(items):
    x, y = rings(items)
    y[0, 0] = 1
    head, _, held = filled(x, y)
    assert head(x).isfinite().all()
    assert held.isfinite().all()


@pytest.mark.parametrize("options", [{"folds": 1}, {"effort": "much"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(raretag.UserError, match="blend takes"):
        Blend(**options)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_run_without_a_named_method_is_a_blend_and_serves(kernel, tmp_path, monkeypatch):
    if not kernel:
        monkeypatch.setattr("raretag.solvers.kernel.MOST_ITEMS", 1)
    x, y = (part.numpy() for part in rings())
    result = raretag.train((x, y), out=tmp_path / "a", listener=Listener())
    assert result.record.method.name == "blend"
    model = raretag.load(tmp_path / "a")
    assert (len(model.network.model.head.landmarks) > 0) == kernel
    here, loaded = result.predict(x[:50]).probabilities, model.predict(x[:50]).probabilities
    assert np.allclose(here, loaded, atol=1e-6)
    for ending in (".onnx", ".pt2"):
        assert export(model, tmp_path / f"model{ending}") < 1e-3


def test_a_run_is_the_same_again(tmp_path):
    x, y = (part.numpy() for part in rings())
    config = compose(None, [])
    record = run(config, tmp_path / "a", data=from_arrays(x, y))
    again = run(config, tmp_path / "a", data=from_arrays(x, y), resume=True)
    assert again["metrics"]["final"] == record["metrics"]["final"]
    assert again["method"]["learned"] == record["method"]["learned"]


@pytest.mark.parametrize(
    ("changes", "hidden", "name"),
    [
        ([], False, "blend"),
        (["train.devices=1"], False, "blend"),
        (["train.epochs=1"], False, "binary_cross_entropy"),
        (["model.name=mlp", "train.epochs=1"], True, "assume_negative"),
        (["sampler.name=class_aware", "train.epochs=1"], False, "binary_cross_entropy"),
        (["method.name=focal", "train.epochs=1"], False, "focal"),
    ],
)
def test_which_method_a_run_without_a_named_one_gets(changes, hidden, name, tmp_path):
    x, y = (part.numpy() for part in rings(60))
    y = np.where(hidden & (y == 0), np.nan, y)
    record = run(compose(None, changes), tmp_path / "a", data=from_arrays(x, y))
    assert record["method"]["name"] == name
