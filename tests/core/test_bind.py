"""A method bound to its labels, in a loop of one's own."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import raretag
from raretag import Context, LabelStore, UserError
from raretag.core.method import OwnLoss, as_method
from raretag.methods import REGISTRY

generator = np.random.default_rng(0)
TRUTH = np.where(generator.random((12, 4)) < 0.3, 1.0, 0.0)
LABELS = LabelStore.from_dense(np.where(generator.random((12, 4)) < 0.6, TRUTH, np.nan))
STATISTICS = LABELS.statistics()


def quietly(*given, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return raretag.bind(*given, **options)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_loop_of_ones_own_gives_the_numbers_of_the_method(name):
    """Two epochs with steps: the same losses and the same weights as with contexts made by hand."""
    bound = quietly(name, LABELS, epochs=2)
    method = raretag.build_method(name, STATISTICS, items=len(LABELS))
    inputs = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
    models = [nn.Linear(3, 4), nn.Linear(3, 4)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [
        torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
        for model, loss in zip(models, (bound, method), strict=True)
    ]
    for epoch in range(2):
        bound.set_epoch(epoch)
        for rows in torch.arange(12).split(5):
            context = Context(rows, epoch, 2)
            losses = (
                bound(models[0](inputs[rows]), rows),
                method(models[1](inputs[rows]), LABELS.targets(rows), context),
            )
            assert torch.equal(*losses)
            for loss, optimizer in zip(losses, optimizers, strict=True):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        bound.end_epoch()
        method.end_epoch(Context(None, epoch, 2))
    assert torch.equal(models[0].weight, models[1].weight)
    assert torch.equal(bound.logits(models[0](inputs)), method.logits(models[1](inputs)))


@pytest.mark.parametrize(
    "rows",
    [
        [3, 0],
        np.array([3, 0]),
        torch.tensor([3, 0], dtype=torch.int32),
        torch.tensor([3, 0], dtype=torch.uint8),
        (3, 0),
    ],
    ids=lambda rows: type(rows).__name__ + str(getattr(rows, "dtype", "")),
)
def test_rows_may_have_many_forms(rows):
    bound = raretag.bind("binary_cross_entropy", LABELS)
    logits = torch.randn(2, 4)
    assert bound(logits, rows) == bound(logits, torch.tensor([3, 0]))


@pytest.mark.parametrize("rows", [[0.5, 1.0], torch.tensor([True, False]), torch.tensor([[0, 1]]), torch.tensor(1)])
def test_rows_that_are_none(rows):
    with pytest.raises(UserError, match="expected the row number of each item"):
        raretag.bind("focal", LABELS)(torch.zeros(2, 4), rows)


def test_targets_follow_the_logits():
    bound = raretag.bind("class_balanced", LABELS).to("meta")
    loss = bound(torch.zeros(2, 4, device="meta"), [0, 1])
    assert loss.device.type == "meta"


def test_what_a_method_learns_is_in_the_parameters():
    bound = raretag.bind("role", LABELS)
    assert [tuple(one.shape) for one in bound.parameters()] == [(12, 4)]
    assert bound.parameter_groups(0.1)[0]["lr"] == pytest.approx(1.0)
    assert not list(raretag.bind("focal", LABELS).parameters())


def test_two_epochs_of_masking_move_the_ratios_and_are_in_the_state():
    bound = raretag.bind("partial_label_masking", LABELS, epochs=4, base="assume_negative", count_unknown=True)
    before = bound.method.objective.keep.target.clone()
    logits = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        bound(logits, range(12))
        bound.end_epoch()
    after = bound.method.objective.keep.target
    assert bound.epoch == 2
    assert not torch.allclose(before, after)

    again = raretag.bind("partial_label_masking", LABELS, epochs=4, base="assume_negative", count_unknown=True)
    again.load_state_dict(copy.deepcopy(bound.state_dict()))
    assert again.epoch == 2
    assert torch.equal(again.method.objective.keep.target, after)
    assert again(logits, range(12)) == bound(logits, range(12))


def test_outside_of_training_nothing_is_learned():
    bound = raretag.bind("dynamic_pseudo_labels", LABELS, epochs=2)
    before = copy.deepcopy(bound.state_dict())
    bound.eval()(torch.randn(3, 4), [1, 2, 3])
    assert all(torch.equal(before[name], value) for name, value in bound.state_dict().items())
    bound.train()(torch.randn(3, 4), [1, 2, 3])
    assert any(not torch.equal(before[name], value) for name, value in bound.state_dict().items())


def hinge(logits, targets):
    return (targets.observed * (1 - (2 * targets.positive - 1) * logits).clamp(min=0)).mean()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, logits, targets):
        return self.scale * hinge(logits, targets)


@pytest.mark.parametrize(
    "given",
    [
        "focal",
        {"name": "focal"},
        raretag.methods.Focal,
        raretag.methods.Focal(),
        {"name": "raretag.methods.focal:Focal"},
    ],
    ids=str,
)
def test_all_forms_of_a_method_are_one_method(given):
    logits = torch.randn(2, 4)
    assert raretag.bind(given, LABELS)(logits, [0, 1]) == raretag.methods.Focal()(logits, LABELS.targets([0, 1]))


def test_a_function_is_a_method():
    logits = torch.randn(2, 4, requires_grad=True)
    bound = raretag.bind(hinge, LABELS)
    assert bound(logits, [4, 5]) == hinge(logits, LABELS.targets([4, 5]))
    assert isinstance(bound.method, OwnLoss)
    assert bound.method.objective.filled() == {}
    assert not bound.method.found_missing(logits, LABELS.targets([4, 5])).any()
    bound.end_epoch()
    assert bound.method.vital_signs() == {}

    learned = raretag.bind(Scaled(), LABELS)
    learned(logits, [4, 5]).backward()
    assert next(iter(learned.parameters())).grad is not None
    assert logits.grad is not None


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        ("committee", {}, r"'committee' is a solver.*use raretag.train\(data, method=\"committee\"\)"),
        ({"name": "logistic_regression"}, {}, "is a solver"),
        ("fokal", {}, "did you mean 'focal'"),
        ("focal", {"gama": 1.0}, "'focal' has no option 'gama'; did you mean 'gamma'"),
        (raretag.methods.Focal, {"gama": 1.0}, "'Focal' has no option 'gama'"),
        (raretag.methods.Focal(), {"gamma": 1.0}, "'gamma' cannot be set for a method that is already made"),
        (hinge, {"gamma": 1.0}, "'gamma' cannot be set"),
        (3, {}, "3 is not a method; expected a name"),
        ({"gamma": 1.0}, {}, "is not a method"),
        (nn.Linear, {}, "is not a method"),
        ("partial_label_masking", {}, r"schedule over all epochs.*bind\(\.\.\., epochs=10\)"),
        ("comic", {}, "schedule over all epochs"),
    ],
)
def test_mistakes_are_answered_in_one_line(given, options, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        raretag.bind(given, LABELS, **options)
    assert "\n" not in str(caught.value)


def test_labels_that_are_none():
    with pytest.raises(UserError, match=r"labels are a ndarray; expected a raretag\.LabelStore"):
        raretag.bind("focal", TRUTH)


def test_a_loss_that_gives_no_number():
    with pytest.raises(UserError, match=r"the loss <lambda> gave \[2, 4\]; expected a tensor with one number"):
        raretag.bind(lambda logits, targets: logits, LABELS)(torch.zeros(2, 4), [0, 1])


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("lws", "the head 'scaled' and 2 stages"),
        ("ml_gcn", "the head 'label_graph'"),
        ("oltr", "the head 'memory' and 2 stages"),
        ("comic", "the head 'normalised' and the branches 'head_tail'"),
    ],
)
def test_what_a_loop_of_ones_own_does_not_use_is_named(name, unused):
    with pytest.warns(UserWarning, match=f"{name} needs {unused}, which your own loop does not have"):
        raretag.bind(name, LABELS, epochs=3)


def test_a_method_below_another_has_many_forms_too():
    logits, rows = torch.randn(3, 4), [0, 1, 2]
    losses = [
        raretag.bind("partial_label_masking", LABELS, epochs=2, base=base)(logits, rows)
        for base in ("focal", {"name": "focal", "gamma": 2.0}, raretag.methods.Focal(), raretag.methods.Focal)
    ]
    assert len(set(map(float, losses))) == 1
    with pytest.raises(UserError, match="is not a method; expected a name"):
        raretag.bind("partial_label_masking", LABELS, epochs=2, base=hinge)
    with pytest.raises(UserError, match="term beyond its objective"):
        raretag.bind("partial_label_masking", LABELS, epochs=2, base=OwnLoss(hinge))
    comic = [quietly("comic", LABELS, epochs=1, base=base) for base in ("focal", raretag.methods.Focal())]
    assert len({float(one(logits, rows)) for one in comic}) == 1
    combined = raretag.bind(
        "combined", LABELS, base=raretag.methods.Focal(), weigh=raretag.methods.Rebalanced(STATISTICS)
    )
    assert combined(logits, rows) == raretag.bind("combined", LABELS, base="focal", weigh="rebalanced")(logits, rows)


def test_draws_follow_the_seed():
    losses = {
        seed: float(raretag.bind("dynamic_pseudo_labels", LABELS, epochs=1, seed=seed)(torch.ones(6, 4), range(6)))
        for seed in (0, 1)
    }
    assert losses[0] != losses[1]
    again = as_method("dynamic_pseudo_labels", STATISTICS, len(LABELS), 1)
    assert losses[1] == float(again(torch.ones(6, 4), LABELS.targets(range(6)), Context(torch.arange(6), 0, 1)))
