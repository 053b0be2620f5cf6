"""COMIC: three branches, their moving vectors, the loss of all of them, and what each switch leaves out."""

from __future__ import annotations

from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.registry import build
from raretag.core.targets import LabelStatistics, Targets
from raretag.models.heads.normalised import Normalised
from raretag.models.heads.plain import Linear
from raretag.models.mlp import Mlp
from support.two_processes import in_two

STATISTICS = LabelStatistics.of_counts([60, 20, 5], 100)
LATE = Context(epoch=5, epochs=10)
ROWS, SIZE = 5, 4


def make(**options: Any) -> Method:
    return build_method("comic", STATISTICS, items=100, **options)


def model(seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    wired = build(
        "models.branches",
        "head_tail",
        options,
        make_backbone=lambda: Mlp(SIZE, width=6, dropout=0.0),
        make_head=lambda features: Normalised(features, 3),
    )
    return wired.double()


def inputs(rows: int = ROWS) -> Tensor:
    return torch.randn(rows, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def targets(rows: int = ROWS) -> Targets:
    generator = torch.Generator().manual_seed(2)
    value = torch.rand(rows, 3, generator=generator).lt(0.4).double()
    return Targets(value, value.bool() & torch.rand(rows, 3, generator=generator).lt(0.7))


def outputs() -> Tensor:
    return 2 * torch.randn(ROWS, 3, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def modified(logits: list[list[float]], y: list[list[float]], counts: list[int]) -> float:
    """The multi-focal loss, mean over items and labels."""
    loss = 0.0
    for row, labels in zip(logits, y, strict=True):
        for z, there, n in zip(row, labels, counts, strict=True):
            p = 1 / (1 + exp(-z))
            far = max(p - 0.05, 0.0)
            power = 3 + (1 - log(n / max(counts))) ** (1 / 6)
            loss += -log(p) if there else -(far**power) * log(1 - far)
    return loss / (len(logits) * len(counts))


def softmax(row: list[float]) -> list[float]:
    return [exp(z) / sum(exp(x) for x in row) for z in row]


def expected(parts: dict[str, float]) -> float:
    """The total loss in plain Python, with weights of the parts."""
    y = targets().positive.tolist()
    counts = STATISTICS.positives.tolist()
    z = dict(zip(("head", "tail", "balanced"), outputs().unbind(1), strict=True))
    own = {branch: modified(logits.tolist(), y, counts) for branch, logits in z.items()}

    likely = ~targets().observed & (torch.sigmoid(z["balanced"]) > 0.7)
    corrected = torch.where(likely, 1.0, targets().positive)
    more = [n + int(new) for n, new in zip(counts, likely.sum(0), strict=True)]
    assert likely.any(), "or this would test nothing"
    correction = modified(z["balanced"].tolist(), corrected.tolist(), more)

    distilled = 0.0
    for teacher in ("head", "tail"):
        kappa = own[teacher] ** 2 / (own["head"] ** 2 + own["tail"] ** 2)
        rows = zip(z[teacher].tolist(), z["balanced"].tolist(), strict=True)
        p = [[a * b for a, b in zip(softmax(h), softmax(own_row), strict=True)] for h, own_row in rows]
        distilled += kappa * modified([[log(x / (1 - x)) for x in row] for row in p], y, counts)
    return parts["m"] * sum(own.values()) + parts["c"] * correction + parts["h"] * distilled


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, {"m": 1.0, "c": 0.2, "h": 0.5}),
        ({"correction": False}, {"m": 1.0, "c": 0.0, "h": 0.5}),
        ({"balance": False}, {"m": 1.0, "c": 0.2, "h": 0.0}),
        ({"lambda_m": 0.3, "lambda_c": 2.0, "lambda_h": 4.0}, {"m": 0.3, "c": 2.0, "h": 4.0}),
    ],
)
def test_the_loss_is_equation_1(options: dict[str, Any], parts: dict[str, float]) -> None:
    loss = make(**options).loss(outputs(), targets(), LATE)
    assert loss.item() == pytest.approx(expected(parts))


def test_what_is_stored_under_an_unknown_label_does_not_matter() -> None:
    clean = targets()
    poisoned = Targets(torch.where(clean.observed, clean.value, torch.nan), clean.observed)
    losses, slopes = [], []
    for given in (clean, poisoned):
        z = outputs().requires_grad_()
        losses.append(make().loss(z, given, LATE))
        slopes.append(torch.autograd.grad(losses[-1], z)[0])
    assert torch.equal(*losses)
    assert torch.equal(*slopes)


def test_the_balancer_teaches_the_balanced_branch_only() -> None:
    z = outputs().requires_grad_()
    make(correction=False, lambda_m=0.0).loss(z, targets(), LATE).backward()
    assert z.grad is not None
    assert not z.grad[:, :2].any()
    assert z.grad[:, 2].abs().min() > 0


def test_the_balancer_has_the_gradient_of_its_value() -> None:
    base = {"name": "multi_focal", "detach_focus": False}
    method = make(correction=False, lambda_m=0.0, base=base).eval()
    head, tail, balanced = outputs().unbind(1)
    assert torch.autograd.gradcheck(
        lambda z: method.loss(torch.stack([head, tail, z], dim=1), targets(), LATE), balanced.clone().requires_grad_()
    )


def test_kappa_favours_the_worse_teacher_and_shows_in_the_vital_signs() -> None:
    z = outputs()
    z[:, 0] = 4.0 * (1 - 2 * targets().positive)  # the head is wrong everywhere
    z[:, 1] = -z[:, 0]
    even, harsh = make(power=0.0), make()
    for method in (even, harsh):
        method.loss(z, targets(), LATE)
    assert even.vital_signs()["kappa_head"] == 0.5
    signs = harsh.vital_signs()
    assert signs["kappa_head"] > 0.9
    assert signs["kappa_head"] + signs["kappa_tail"] == pytest.approx(1.0)


def test_the_balancer_survives_teachers_without_loss() -> None:
    z = torch.zeros(ROWS, 3, 3)
    z[:, :2] = 1e4 * (2 * targets().positive - 1)[:, None]
    loss = make().loss(z.requires_grad_(), targets(), LATE)
    loss.backward()
    assert loss.isfinite()
    assert z.grad is not None
    assert z.grad.isfinite().all()


def test_vital_signs_count_corrected_labels() -> None:
    method = make(cap=None)
    method.loss(outputs(), targets(), LATE)
    method.end_epoch(LATE)
    likely = ~targets().observed & (torch.sigmoid(outputs()[:, 2]) > 0.7)
    assert method.vital_signs()["corrected_last_epoch"] == float(likely.sum())
    assert set(make(correction=False, balance=False).vital_signs()) == set()


def test_predictions_are_those_of_the_branch_asked_for() -> None:
    z = outputs()
    for number, branch in enumerate(("head", "tail", "balanced")):
        assert torch.equal(make(predict=branch).logits(z), z[:, number])
    assert torch.equal(make().logits(z), z[:, 2])
    torch.testing.assert_close(make(predict="mean").logits(z), z.mean(1))


def test_without_balance_one_branch_is_enough() -> None:
    assert (make().branches, make().head) == ("head_tail", "normalised")
    assert make(balance=False).branches == "single"


@pytest.mark.parametrize(
    "options",
    [
        {"lambda_h": -1.0},
        {"base": "role"},
        {"base": "comic"},
        {"base": "hill", "head_tail": False},
        {"product": "sum"},
        {"tau": 2.0},
    ],
)
def test_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        make(**options)


# The model -----------------------------------------------------------------------------------------------------------


def test_the_model_is_equations_7_to_10() -> None:
    network = model()
    first, second = inputs(), inputs().flip(1)
    network(first)
    z = network(second)
    seen = {name: [backbone(x) for x in (first, second)] for name, backbone in network.backbones.items()}
    moving = {name: 0.9 * a.mean(0) + b.mean(0) for name, (a, b) in seen.items()}  # (7)
    frequent, rare, balanced = (seen[name][1] for name in ("head", "tail", "balanced"))

    attend = network.attention
    scores = [attend.score(torch.tanh(attend.query(balanced) + attend.key(x))) for x in (frequent, rare)]
    weight = torch.softmax(torch.cat(scores, dim=1), dim=1)
    balanced = balanced + weight[:, :1] * frequent + weight[:, 1:] * rare  # (8)

    torch.testing.assert_close(z[:, 0], network.heads["head"](frequent, moving["head"], -1.0))  # (10)
    torch.testing.assert_close(z[:, 1], network.heads["tail"](rare, moving["tail"], 2.0))
    torch.testing.assert_close(z[:, 2], network.heads["balanced"](balanced))  # (9)


def test_moving_vectors_rest_in_evaluation_and_are_in_the_state() -> None:
    network = model()
    network(inputs())
    before = network.moving.clone()
    network.eval()(inputs().flip(1))
    assert torch.equal(network.moving, before)
    other = model(seed=1)
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.eval()(inputs()), network(inputs()))
    assert before.any()


def test_branches_have_backbones_of_their_own_or_share_one() -> None:
    assert len(model().backbones) == 3
    shared = model(share_backbone=True)
    assert len(shared.backbones) == 1
    assert shared.get_submodule("backbone") is shared.backbones["balanced"]
    z = shared(inputs())
    torch.testing.assert_close(z[:, 0], shared.heads["head"](shared.backbone(inputs()), shared.moving[0], -1.0))
    assert torch.equal(shared.moving[0], shared.moving[1])
    assert not model(attention=False).attention


def test_every_parameter_of_the_model_learns() -> None:
    network = model()
    make(cap=None).loss(network(inputs()), targets(), LATE).backward()
    idle = [
        name for name, parameter in network.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ]
    assert not idle


def test_the_parts_of_the_balancer_can_be_left_out() -> None:
    still = model(head_factor=0.0, tail_factor=0.0)  # without the moving vector
    z = still(inputs())
    torch.testing.assert_close(z[:, 0], still.heads["head"](still.backbones["head"](inputs())))
    parts = {"make_backbone": lambda: Mlp(SIZE, dropout=0.0), "make_head": lambda features: Linear(features, 3)}
    plain = build("models.branches", "head_tail", {}, **parts).double()  # without the normalised classifier
    z = plain(inputs())
    rare, e = plain.backbones["tail"](inputs()), plain.moving[1] / plain.moving[1].norm()
    torch.testing.assert_close(z[:, 1], plain.heads["tail"](rare + 2.0 * (rare @ e)[:, None] * e))
    with pytest.raises(UserError, match="momentum"):
        model(momentum=1.0)


def test_the_moving_vector_may_follow_the_gradient_of_the_step_before() -> None:
    network, seen = model(moved_by="gradient"), {}
    for branch in ("head", "tail"):
        network.backbones[branch].register_forward_hook(lambda _, __, out, name=branch: seen.update({name: out}))
    z = network(inputs())
    assert not network.moving.any()  # no step yet
    for features in seen.values():
        features.retain_grad()
    make(cap=None).loss(z, targets(), LATE).backward()
    slopes = torch.stack([seen[branch].grad.sum(0) for branch in ("head", "tail")])
    network(inputs())
    assert slopes.any()
    torch.testing.assert_close(network.moving, slopes)
    assert not network.gradient.any()


def test_training_lowers_the_loss() -> None:
    network, method = model(), make()
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    losses = []
    for _ in range(30):
        loss = method.loss(network(inputs(12)), targets(12), LATE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


# Processes -----------------------------------------------------------------------------------------------------------


def two_steps(rows: slice) -> tuple[list[Tensor], dict[str, Tensor], dict[str, float]]:
    network, method = model(), make(cap=None)
    loss = torch.zeros(())
    for x in (inputs(), inputs().flip(1)):
        network.zero_grad()
        loss = method.loss(network(x[rows]), targets()[rows], LATE)
        loss.backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    method.end_epoch(LATE)
    return [loss.detach(), *gradients], {"moving": network.moving}, method.vital_signs()


def work(rank: int, folder: str) -> None:
    torch.save(two_steps(slice(rank, None, 2)), f"{folder}/{rank}.pt")


def test_two_processes_are_one(tmp_path: Path) -> None:
    in_two(work, tmp_path)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    values, state, signs = two_steps(slice(None))
    for a, b, one in zip(first[0], second[0], values, strict=True):
        torch.testing.assert_close((a + b) / 2, one, rtol=1e-10, atol=1e-10)
    assert signs["corrected_ever"] > 0
    for share in (first, second):
        torch.testing.assert_close(share[1], state, rtol=1e-10, atol=1e-10)
        assert share[2] == pytest.approx(signs)


def test_a_single_branch_is_its_own_control() -> None:
    """L_mfm(softmax(z)) without teachers, to compare the balancer with."""
    z = outputs()[:, 2]
    network_loss = make(correction=False, lambda_m=0.0, lambda_h=1.0).loss(z, targets(), LATE)
    p = [softmax(row) for row in z.tolist()]
    logits = [[log(x / (1 - x)) for x in row] for row in p]
    y = targets().positive.tolist()
    assert network_loss.item() == pytest.approx(modified(logits, y, STATISTICS.positives.tolist()))
