"""An optimizer with one number of state for each row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.streamed import row_adagrad
from raretag.streamed.row_adagrad import RowAdagrad


def naive(weight: list[list[float]], gradients: list[list[list[float]]], lr: float, eps: float) -> list[list[float]]:
    h = [0.0] * len(weight)
    for gradient in gradients:
        for c, g in enumerate(gradient):
            h[c] += sum(one * one for one in g) / len(g)
            weight[c] = [w - lr * one / (h[c] ** 0.5 + eps) for w, one in zip(weight[c], g, strict=True)]
    return weight


def trained(start: Tensor, gradients: list[Tensor], **options: float) -> nn.Parameter:
    parameter = nn.Parameter(start.clone())
    optimizer = RowAdagrad([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient
        optimizer.step()
    assert sum(one.numel() for one in optimizer.state[parameter].values()) == len(start)
    return parameter


@pytest.mark.parametrize("entries", [1, 7, 2**22])
def test_it_is_the_formula(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_adagrad, "ENTRIES", entries)
    torch.manual_seed(0)
    start, gradients = torch.randn(6, 3).double(), [torch.randn(6, 3).double() for _ in range(4)]
    found = trained(start, gradients, lr=0.3, eps=1e-3)
    expected = naive(start.tolist(), [one.tolist() for one in gradients], 0.3, 1e-3)
    torch.testing.assert_close(found.detach(), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(6, 3), (6,)])
def test_sparse_rows_do_what_their_dense_form_does(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    start, gradients = torch.randn(shape), [torch.zeros(shape) for _ in range(3)]
    rows = [torch.tensor(some) for some in ([0, 4], [4], [1, 2, 4])]
    for gradient, some in zip(gradients, rows, strict=True):
        gradient[some] = torch.randn(len(some), *shape[1:])
    sparse = [
        torch.sparse_coo_tensor(some[None], one[some], shape, check_invariants=True)
        for one, some in zip(gradients, rows, strict=True)
    ]
    torch.testing.assert_close(trained(start, sparse).detach(), trained(start, gradients).detach())


def test_a_row_without_gradient_stays() -> None:
    gradient = torch.zeros(3, 2)
    gradient[1] = 1.0
    start = torch.randn(3, 2)
    moved = (trained(start, [gradient]).detach() != start).any(1)
    assert moved.tolist() == [False, True, False]


def test_it_resumes_from_its_state() -> None:
    torch.manual_seed(2)
    gradients = [torch.randn(4, 2) for _ in range(2)]
    whole = trained(torch.zeros(4, 2), gradients)
    parameter = nn.Parameter(torch.zeros(4, 2))
    first = RowAdagrad([parameter])
    parameter.grad = gradients[0]
    first.step()
    second = RowAdagrad([parameter])
    second.load_state_dict(first.state_dict())
    parameter.grad = gradients[1]
    second.step()
    assert torch.equal(parameter, whole)


def test_a_rate_of_zero_is_refused() -> None:
    with pytest.raises(UserError, match="lr and eps must be above 0"):
        RowAdagrad([nn.Parameter(torch.zeros(1))], lr=0.0)
