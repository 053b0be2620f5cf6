"""The committee is one network, learns what a line cannot, and leaves unknown labels that look positive alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import raretag
from raretag.config.settings import compose
from raretag.core.listener import Listener
from raretag.core.registry import build
from raretag.core.targets import Targets
from raretag.data.arrays import from_arrays
from raretag.solvers.committee import Committee, highest
from raretag.solvers.regression import mean_precision
from support.runs import run


def crossed(items=400, labels=3):
    """Label c is the sign of a product of two columns: no line tells it; the last label has no positives."""
    random = np.random.default_rng(0)
    x = random.normal(size=(items, 4))
    y = np.stack([x[:, c] * x[:, c + 1] > 0.4 for c in range(labels)], 1)
    y[:, -1] = False
    return torch.from_numpy(x).float(), torch.from_numpy(y).float()


def filled(x, y, observed=None, width=64, **options):
    """The head that a committee fills, as a model."""
    observed = torch.ones_like(y, dtype=torch.bool) if observed is None else observed
    targets = Targets(y * observed, observed)
    head = build("models.heads", "with_skip", {"width": width}, features=x.shape[1], labels=y.shape[1])
    solver = Committee(**options)
    solver.solve(lambda: iter([(x, targets)]), head, Listener())
    return head, solver


def test_it_learns_what_a_line_cannot():
    x, y = crossed()
    line, _ = filled(x, y, members=0)
    whole, _ = filled(x, y, epochs=900, mixup=0.0)
    assert mean_precision(line(x), y) < 0.6
    assert mean_precision(whole(x), y) > 0.7


def test_three_voices_of_the_same_spread():
    x, y = crossed()
    whole, _ = filled(x, y, skip=True)
    hidden = torch.relu(whole.hidden(x))
    voices = [
        whole.skip(x),
        hidden[:, :32] @ whole.classify.weight[:, :32].T,
        hidden[:, 32:] @ whole.classify.weight[:, 32:].T,
    ]
    spreads = [voice[:, :2].std(0) for voice in voices]
    torch.testing.assert_close(spreads[0], spreads[1])
    torch.testing.assert_close(spreads[0], spreads[2])
    line, _ = filled(x, y, members=0)
    balanced, _ = filled(x, y, width=32, members=4, weights="balanced", skip=False)  # the same draws as the first half
    rest = 9 * spreads[0] - line(x)[:, :2].std(0) - balanced(x)[:, :2].std(0)  # p, of (o + q + p) / 9
    assert (rest > 0).all()
    for voice, alone in zip(voices[:2], (line, balanced), strict=True):
        z = alone(x)[:, :2]
        torch.testing.assert_close(voice[:, :2] / spreads[0], (z - alone.classify.bias[:2]) / z.std(0))


def test_the_line_is_heard_while_items_are_few():
    x, y = crossed(200)
    wide = torch.cat([x, torch.randn(200, 17, generator=torch.Generator().manual_seed(0))], 1)
    assert filled(wide, y)[0].skip.weight[:2].any()  # fewer than ten items a column
    many, _ = filled(x, y)
    assert not many.skip.weight[:2].any()
    assert torch.equal(many(x)[:, :2], filled(x, y, skip=False)[0](x)[:, :2])
    assert filled(x, y, skip=True)[0].skip.weight[:2].any()


def test_a_half_without_weights_draws_the_line_where_weights_would():
    random = np.random.default_rng(2)
    y = torch.from_numpy(random.random((2000, 1)) < 0.05).float()
    x = torch.from_numpy(random.normal(size=(2000, 3))).float() + y
    shares = [
        float((filled(x, y, weights=weights, skip=False)[0](x) > 0).float().mean()) for weights in ("balanced", "plain")
    ]
    assert 0.1 < shares[0] < 0.4  # 1 / 20 are positive, and both sides weigh the same
    assert abs(shares[0] - shares[1]) < 0.1


def test_a_label_without_positives_is_unlikely_everywhere():
    x, y = crossed()
    head, _ = filled(x, y)
    assert (head(x)[:, -1] < -4).all()
    assert head(x)[:, -1].std() < 1e-6


def test_the_same_seed_gives_the_same_network_and_torch_draws_on_undisturbed():
    x, y = crossed(100)
    torch.manual_seed(3)
    one, _ = filled(x, y, seed=5)
    after = torch.rand(1)
    torch.manual_seed(3)
    other, _ = filled(x, y, seed=5)
    torch.manual_seed(3)
    build("models.heads", "with_skip", {"width": 64}, features=4, labels=3)  # what else draws
    assert torch.equal(one(x), other(x))
    assert torch.equal(after, torch.rand(1))
    assert not torch.equal(one(x), filled(x, y, seed=6)[0](x))


def test_the_highest_are_found_among_those_asked_for():
    random = torch.Generator().manual_seed(0)
    z, among = torch.randn(30, 4, generator=random), torch.rand(30, 4, generator=random) < 0.5
    found = highest(z, among, torch.tensor([0.0, 1.0, 7.0, 99.0]))
    for label, count in enumerate([0, 1, 7, 99]):
        rows = sorted((row for row in range(30) if among[row, label]), key=lambda row: -z[row, label])[:count]
        assert found[:, label].nonzero().flatten().tolist() == sorted(rows)


def test_unknown_labels_that_look_positive_are_left_alone():
    random = np.random.default_rng(1)
    truth = torch.from_numpy(random.random((600, 1)) < 0.3).float()
    x = torch.from_numpy(random.normal(size=(600, 6))).float() + 1.5 * truth
    observed = (truth > 0) & torch.from_numpy(random.random((600, 1)) < 0.5)
    forgiving, _ = filled(x, truth, observed, members=0)
    strict, _ = filled(x, truth, observed, members=0, forgive=0.0)
    hidden = (truth > 0) & ~observed
    assert forgiving(x)[hidden].mean() > strict(x)[hidden].mean() + 0.5


def test_nothing_is_forgiven_where_negatives_are_given():
    x, y = crossed()
    observed = torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.6
    one, _ = filled(x, y, observed, members=0)
    other, _ = filled(x, y, observed, members=0, forgive=0.0)
    assert torch.equal(one(x), other(x))


def test_a_frequent_label_keeps_negatives_to_learn_from():
    random = np.random.default_rng(1)
    truth = torch.from_numpy(random.random((300, 1)) < 0.7).float()
    x = torch.from_numpy(random.normal(size=(300, 3))).float() + 3 * truth
    observed = (truth > 0) & torch.from_numpy(random.random((300, 1)) < 0.8)  # more than half of the items
    head, _ = filled(x, truth, observed)
    assert mean_precision(head(x), truth) > 0.95


def test_members_are_heard_where_no_line_says_anything():
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]).repeat(50, 1)
    y = (x[:, :1] * x[:, 1:] > 0).float()
    head, _ = filled(x, y, mixup=0.0, epochs=300)
    assert mean_precision(head(x), y) > 0.95


def test_the_unit_of_the_features_does_not_matter():
    x, y = crossed()
    one, _ = filled(x, y, members=0)
    for unit in (1e-4, 1e3):
        other, _ = filled(x * unit, y, members=0)
        torch.testing.assert_close(other(x * unit), one(x), rtol=0.05, atol=0.02)


@pytest.mark.parametrize(
    "options", [{"members": -2}, {"members": 3}, {"skip": False, "members": 0}, {"folds": 1}, {"forgive": -0.1}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(raretag.UserError, match="committee needs"):
        filled(*crossed(20), **options)


def test_a_width_that_cannot_be_shared_is_refused():
    with pytest.raises(raretag.UserError, match="share equally"):
        filled(*crossed(20), members=6)


def test_a_run_is_the_same_again_and_serves(tmp_path):
    x, y = (part.numpy() for part in crossed())
    config = compose(None, ["method.name=committee"])
    record = run(config, tmp_path / "a", data=from_arrays(x, y))
    again = run(config, tmp_path / "a", data=from_arrays(x, y), resume=True)
    assert again["metrics"]["final"] == record["metrics"]["final"]
    assert again["method"]["learned"] == record["method"]["learned"]
    assert raretag.load(tmp_path / "a").predict(x[:5]) is not None


@pytest.mark.parametrize(
    ("name", "last"), [("blend", 1.0), ("committee", 1.0), ("logistic_regression", None)]
)  # its path may end early
def test_a_long_solve_tells_how_far_it_is(name, last, tmp_path):
    x, y = (part.numpy() for part in crossed(60))
    heard = []
    config = compose(None, [f"method.name={name}"])
    run(config, tmp_path / "a", data=from_arrays(x, y), progress=heard.append)
    assert len(set(heard)) >= 9
    assert heard == sorted(heard)
    assert 0 <= heard[0] < heard[-1] <= 1
    assert last is None or heard[-1] == pytest.approx(last)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["method.name=committee", "train.epochs=3"], "not used: train.epochs; committee"),
        (["method.name=logistic_regression", "sampler.name=class_aware"], "not used: sampler.name; logistic"),
        (["method.name=committee"], None),
    ],
)
def test_settings_without_use_are_named(changes, line, tmp_path):
    x, y = (part.numpy() for part in crossed(60))
    said = []
    run(compose(None, changes), tmp_path / "a", data=from_arrays(x, y), message=said.append)
    assert [one for one in said if one.startswith("not used")] == [one for one in said if line and line in one]
    assert line is None or any(line in one for one in said)
