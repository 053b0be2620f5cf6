"""Expected positives and the label estimator: the authors' numbers, where the estimator starts and how it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import build_method
from raretag.core.targets import LabelStatistics, Targets
from raretag.methods.role import SURE, UNSURE, Role
from support.paths import GOLDEN
from support.two_processes import in_two

STATISTICS = LabelStatistics.of_counts([60, 30, 12, 5, 2], 100)
LOGITS = torch.tensor(GOLDEN["_about"]["logits"], dtype=torch.float64)
PARTIAL = torch.tensor(GOLDEN["_about"]["labels_partial(1=pos,0=neg,-1=unknown)"], dtype=torch.float64)
POSITIVES = Targets(PARTIAL, PARTIAL > 0)  # the authors have no observed negatives
ROLE, EPR = GOLDEN["losses"]["role_spml_eps1e-5"], GOLDEN["losses"]["epr_spml_eps1e-5"]
THETA = torch.tensor(ROLE["estimator_logits"], dtype=torch.float64)
ITEMS = torch.tensor([11, 3, 0, 42])


def make(name: str, seed: int = 0, **options: Any) -> Any:
    return build_method(name, STATISTICS, items=100, seed=seed, **options)


def too_many(p: Tensor) -> Tensor:
    return ((p.sum(1).mean() - 1.9) / 5) ** 2


def authors_epr(z: Tensor, eps: float) -> Tensor:
    p = torch.sigmoid(z)
    return torch.where(POSITIVES.observed, -torch.log(p + eps), 0.0).mean() + too_many(p)


def authors_role(z: Tensor, theta: Tensor, eps: float) -> Tensor:
    """As their code has it: logarithms of probabilities plus a small number."""
    p, e = torch.sigmoid(z), torch.sigmoid(theta)

    def entropy(p: Tensor, t: Tensor) -> Tensor:
        return -t * torch.log(p + eps) - (1 - t) * torch.log(1 - p + eps)

    known = torch.where(POSITIVES.observed, entropy(p, torch.ones_like(p)) + entropy(e, torch.ones_like(p)), 0.0)
    both = entropy(p, e.detach()) + entropy(e, p.detach())
    return ((known + both) / 2).mean() + (too_many(p) + too_many(e)) / 2


def role_at_theta() -> tuple[Role, Context]:
    """ROLE whose estimator stands where that of the golden vector stands."""
    method: Role = make("role", expected=1.9).double()
    context = Context(ITEMS)
    with torch.no_grad():
        method.estimator.moved[ITEMS] = THETA - method.estimator.start(POSITIVES, context)
    return method, context


def slopes(loss: Tensor, *of: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, of))


def test_the_authors_formulas_give_the_golden_numbers() -> None:
    z, theta = LOGITS.clone().requires_grad_(), THETA.clone().requires_grad_()
    for loss, golden in ((authors_epr(z, 1e-5), EPR), (authors_role(z, theta, 1e-5), ROLE)):
        assert loss.item() == pytest.approx(golden["value"], abs=1e-8)
        slope = slopes(loss, z)[0]
        torch.testing.assert_close(slope, torch.tensor(golden["grad"], dtype=torch.float64), rtol=0, atol=1e-8)


def test_expected_positive_is_the_authors_loss_without_their_small_number() -> None:
    z = LOGITS.clone().requires_grad_()
    loss = make("expected_positive", expected=1.9).loss(z, POSITIVES)
    assert loss.item() == pytest.approx(EPR["value"], abs=1e-3)
    naive = authors_epr(z, 0.0)
    assert loss.item() == pytest.approx(naive.item(), abs=1e-9)
    torch.testing.assert_close(slopes(loss, z), slopes(naive, z), rtol=0, atol=1e-9)


def test_role_is_the_authors_loss_without_their_small_number() -> None:
    z, theta = LOGITS.clone().requires_grad_(), THETA.clone().requires_grad_()
    method, context = role_at_theta()
    loss = method.loss(z, POSITIVES, context)
    assert loss.item() == pytest.approx(ROLE["value"], abs=1e-3)
    naive = authors_role(z, theta, 0.0)
    assert loss.item() == pytest.approx(naive.item(), abs=1e-9)
    ours, moved = slopes(loss, z, method.estimator.moved)
    theirs, slope = slopes(naive, z, theta)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
    torch.testing.assert_close(moved[ITEMS], slope, rtol=0, atol=1e-9)
    golden = torch.tensor(ROLE["grad_estimator_logits"], dtype=torch.float64)
    torch.testing.assert_close(moved[ITEMS], golden, rtol=0, atol=1e-4)
    assert int(moved.any(1).sum()) == 4, "no other item has a gradient"


def test_the_estimator_starts_sure_of_what_was_observed_and_unsure_of_the_rest() -> None:
    method = make("role")
    targets = Targets(PARTIAL, PARTIAL >= 0)
    theta = method.estimator(targets, Context(ITEMS))
    e = torch.sigmoid(theta)
    torch.testing.assert_close(e[PARTIAL == 1], torch.full((3,), 0.995))
    torch.testing.assert_close(e[PARTIAL == 0], torch.full((int((PARTIAL == 0).sum()),), 0.005))
    assert theta[PARTIAL < 0].abs().max() <= UNSURE
    assert theta[PARTIAL < 0].unique().numel() == int((PARTIAL < 0).sum())
    alone = method.estimator(targets[2:3], Context(ITEMS[2:3]))
    assert torch.equal(alone, theta[2:3]), "whatever the batch"
    assert not torch.equal(make("role", seed=1).estimator(targets, Context(ITEMS)), theta)


def test_the_start_is_spread_evenly() -> None:
    rows = Targets(torch.zeros(100, 5), torch.zeros(100, 5, dtype=torch.bool))
    start = make("role").estimator.start(rows, Context(torch.arange(100)))
    assert abs(float(start.mean())) < 4 * UNSURE / 3**0.5 / 500**0.5
    assert float(start.std()) == pytest.approx(UNSURE / 3**0.5, rel=0.1)
    assert pytest.approx(5.293305, abs=1e-6) == SURE


def test_the_optimizer_group_has_its_own_learning_rate() -> None:
    method = make("role")
    (group,) = method.parameter_groups(0.01)
    assert group["lr"] == pytest.approx(0.1)
    assert [id(p) for p in group["params"]] == [id(p) for p in method.parameters()]
    before = method.loss(LOGITS, POSITIVES, Context(ITEMS))
    optimizer = torch.optim.Adam([group])
    for _ in range(5):
        optimizer.zero_grad()
        method.loss(LOGITS, POSITIVES, Context(ITEMS)).backward()
        optimizer.step()
    assert method.loss(LOGITS, POSITIVES, Context(ITEMS)) < before


def test_the_expected_number_is_that_of_the_observed_positives_unless_given() -> None:
    for name in ("role", "expected_positive"):
        assert make(name).expected.item() == pytest.approx(1.09)
        assert make(name, expected=2.5).expected.item() == 2.5


def test_calling_a_method_is_asking_for_its_loss() -> None:
    for name in ("role", "expected_positive"):
        method = make(name).eval()
        context = Context(ITEMS)
        assert torch.equal(method(LOGITS, POSITIVES, context), method.loss(LOGITS, POSITIVES, context))


@pytest.mark.parametrize("name", ["role", "expected_positive"])
def test_refuses_a_negative_number_of_labels(name: str) -> None:
    with pytest.raises(UserError):
        make(name, expected=-1.0)


def estimator_slope(rows: slice) -> Tensor:
    method, context = role_at_theta()
    loss = method.loss(LOGITS[rows], POSITIVES[rows], Context(context.items[rows]))
    return slopes(loss, method.estimator.moved)[0]


def work(rank: int, folder: str) -> None:
    torch.save(estimator_slope(slice(rank, None, 2)), f"{folder}/{rank}.pt")


def test_every_process_has_the_gradient_of_the_whole_estimator(tmp_path: Path) -> None:
    in_two(work, tmp_path)
    whole = estimator_slope(slice(None))
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), whole)
