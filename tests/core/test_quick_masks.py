"""What stands in for torch's operations because it is quicker gives the same numbers."""

from __future__ import annotations

import pytest
import torch

from raretag.core.context import NO_CONTEXT
from raretag.core.numerics import are_plain, log_sum_exp, power
from raretag.core.targets import either, everywhere, overlap, zero_outside
from raretag.objective.completions import MANY, highest, kth_unknown

SHARP = [0.0, -0.0, 1.0, -2.5, torch.inf, -torch.inf, torch.nan, 1e-45, 3e38]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        a.dtype == b.dtype and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) and torch.equal(a.isnan(), b.isnan())
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("other", ["tensor", "row", "number", "column"])
def test_either_is_where(dtype, other):
    value = torch.tensor(SHARP, dtype=dtype).expand(9, 9)
    mask = torch.rand(9, 9, generator=torch.Generator().manual_seed(0)) < 0.5
    second = {"tensor": value.T, "row": value[0].flip(0), "number": 0.25, "column": value[0][:, None]}[other]
    assert same(either(mask, value, second), torch.where(mask, value, torch.as_tensor(second, dtype=dtype)))
    assert same(either(mask, second, value), torch.where(mask, torch.as_tensor(second, dtype=dtype), value))
    assert same(zero_outside(value, mask), torch.where(mask, value, torch.zeros((), dtype=dtype)))


def test_either_lets_gradients_through():
    value = torch.ones(2, 2, requires_grad=True)
    either(torch.eye(2).bool(), value, 0.0).sum().backward()
    assert torch.equal(value.grad, torch.eye(2))


def test_overlap_of_a_mask_with_everything_is_the_mask():
    mask = torch.eye(3).bool()
    assert torch.equal(overlap(mask, everywhere(mask)), mask)
    assert torch.equal(overlap(everywhere(mask), mask), mask)
    assert torch.equal(overlap(mask, ~mask), torch.zeros(3, 3).bool())
    assert torch.equal(overlap(everywhere(mask), mask[0]), mask[0].expand(3, 3))


@pytest.mark.parametrize("dim", [0, 1])
def test_a_log_sum_exp_of_some(dim):
    generator = torch.Generator().manual_seed(1)
    x = (30 * torch.randn(7, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    among = torch.rand(7, 5, generator=generator) < 0.6
    among[2], among[:, 3] = False, False
    plain = torch.logsumexp(x.masked_fill(~among, torch.finfo(x.dtype).min / 8), dim)
    (expected,) = torch.autograd.grad(plain.clamp(min=-1e9).sin().sum(), x)
    found = log_sum_exp(x, among, dim)
    torch.testing.assert_close(found, plain)
    (gradient,) = torch.autograd.grad(found.clamp(min=-1e9).sin().sum(), x)
    torch.testing.assert_close(gradient, expected)
    assert torch.autograd.gradcheck(lambda z: log_sum_exp(z, among, dim).clamp(min=-1e9), x)


@pytest.mark.parametrize("k", [1, 100, MANY // 4])
@pytest.mark.parametrize("kind", ["random", "ties", "sorted", "mostly minus infinity"])
def test_the_highest_of_many(k, kind):
    values = torch.randn(2 * MANY, generator=torch.Generator().manual_seed(2))
    values = values.round() if kind == "ties" else values.sort().values if kind == "sorted" else values
    if kind == "mostly minus infinity":
        values[50:] = -torch.inf
    assert torch.equal(highest(values, k), values.sort(descending=True).values[:k])


def test_the_kth_of_the_unknown():
    logits, unknown = torch.tensor([[3.0, 9.0], [1.0, 2.0]]), torch.tensor([[True, False], [True, True]])
    found = [float(kth_unknown(logits, unknown, k, NO_CONTEXT)) for k in range(5)]
    assert found == [torch.inf, 3.0, 2.0, 1.0, -torch.inf]


def test_labels_that_are_there_or_not_are_plain():
    assert are_plain(torch.tensor([[0.0, 1.0]]))
    assert not any(are_plain(torch.tensor([[0.0, value]])) for value in (0.5, 1e-30, 1 - 2.0**-24))


def test_a_power_to_base_two():
    x, gamma = torch.tensor([1e-38, 1e-3, 0.5, 1.0]), torch.tensor([0.3, 1.7, 4.2, 8.0])[:, None]
    expected = x.double() ** gamma.double()
    torch.testing.assert_close(power(x, gamma).double(), expected, rtol=2e-5, atol=1e-38)
    torch.testing.assert_close(power(x, gamma, -x.log()).double(), expected, rtol=2e-5, atol=1e-38)
