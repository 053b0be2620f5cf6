"""The quick ways to average precision are the slow one: rounded float64, long lines, the device's, bins."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics import precision_curve as module
from raretag.metrics.bounds import BinnedScores, binned_average_precision
from raretag.metrics.precision_curve import average_precision, precision_sums, sums_on_device
from raretag.metrics.scored import Scored
from support.scored_items import PROBLEMS, drawn


def by_scikit_learn(scores: Tensor, targets: Targets) -> list[float]:
    result = []
    for c in range(scores.shape[1]):
        seen = targets.observed[:, c]
        truth = targets.value[seen, c].numpy()
        score = scores[seen, c].numpy()
        result.append(average_precision_score(truth, score) if truth.any() else np.nan)
    return result


@pytest.mark.parametrize("unknown", [0.0, 0.4])
@pytest.mark.parametrize("positives", [5, 300])  # few doubtful positives are counted, many are searched
@pytest.mark.parametrize("step", [2.0**-40, 2.0**-26])
def test_float64_scores_that_float32_cannot_tell_apart_are_told_apart(
    unknown: float, positives: int, step: float
) -> None:
    chance = torch.Generator().manual_seed(0)
    scores = 1.0 + torch.randint(0, 500, (1000, 6), generator=chance).double() * step  # with ties
    assert len(scores.float().unique()) < 100
    value = torch.zeros(1000, 6)
    value[:positives] = 1.0
    targets = Targets(value, torch.rand(1000, 6, generator=chance) >= unknown)
    np.testing.assert_allclose(average_precision(scores, targets), by_scikit_learn(scores, targets), rtol=0, atol=1e-12)


def test_float64_beyond_the_range_of_float32_keeps_its_order() -> None:
    scores = torch.tensor([1e300, 1e200, -1e200, -1e300, 1e-300, 0.0], dtype=torch.float64)[:, None]
    value = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])[:, None]
    targets = Targets(value, torch.ones(6, 1, dtype=torch.bool))
    assert average_precision(scores, targets).item() == pytest.approx((1 / 2 + 2 / 3 + 3 / 6) / 3, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(PROBLEMS)
def test_the_sums_of_a_device_are_those_of_the_processor(problem: Scored) -> None:
    for observed in (problem.targets.observed, None):
        positive = problem.positive if observed is not None else problem.targets.value == 1
        total, found = precision_sums(problem.scores, observed, positive)
        other, also_found = sums_on_device(problem.scores, observed, positive)
        torch.testing.assert_close(other, total, rtol=0, atol=1e-12)
        assert torch.equal(found, also_found)
        assert torch.equal(found, positive.sum(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_of_classes_change_nothing(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    problem = drawn(50, 23, 0, dtype=dtype)
    whole = average_precision(problem.scores, problem.targets)
    monkeypatch.setattr(module, "_ENTRIES_AT_ONCE", 200)
    in_blocks = average_precision(problem.scores, problem.targets)
    assert whole.numpy().tobytes() == in_blocks.numpy().tobytes()


def test_scores_with_a_gradient_and_of_any_layout_are_measured() -> None:
    problem = drawn(50, 7, 1)
    expected = average_precision(problem.scores, problem.targets)
    turned = problem.scores.T.contiguous().T.requires_grad_()
    torch.testing.assert_close(average_precision(turned, problem.targets), expected, rtol=0, atol=0, equal_nan=True)


# Bins ----------------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(PROBLEMS, st.sampled_from([1, 3, 64, 2048]), st.sampled_from([0.1, 1.0, 30.0]))
def test_the_exact_value_lies_within_the_bracket(problem: Scored, bins: int, scale: float) -> None:
    logits = problem.scores * scale
    exact = average_precision(logits, problem.targets)
    bracket = binned_average_precision(BinnedScores.of(logits, problem.targets, bins))
    known = ~exact.isnan()
    assert torch.equal(bracket.low.isnan(), ~known)
    assert (bracket.low[known] <= exact[known] + 1e-12).all()
    assert (exact[known] <= bracket.high[known] + 1e-12).all()
    assert ((bracket.middle - exact)[known].abs() <= bracket.error[known] + 1e-12).all()


def test_more_bins_are_more_exact() -> None:
    chance = torch.Generator().manual_seed(0)
    value = (torch.rand(20_000, 3, generator=chance) < 0.02).float()
    logits = 2 * torch.randn(20_000, 3, generator=chance) + 2 * value - 4
    targets = Targets(value, torch.rand(20_000, 3, generator=chance) < 0.7)
    errors = [binned_average_precision(BinnedScores.of(logits, targets, bins)).error.max() for bins in (16, 256, 4096)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert errors[2] < 0.005


def test_bins_of_batches_add_up() -> None:
    problem = drawn(40, 5, 2)
    whole = BinnedScores.of(problem.scores, problem.targets, 64)
    halves = [BinnedScores.of(problem.scores[part], problem.targets[part], 64) for part in (slice(15), slice(15, 40))]
    stream = BinnedScores.empty(5, 64)
    for row in range(40):
        stream.count(problem.scores[row : row + 1], problem.targets[slice(row, row + 1)])
    for sums in (halves[0] + halves[1], stream):
        assert torch.equal(sums.observed, whole.observed)
        assert torch.equal(sums.positive, whole.positive)
    assert whole.observed.sum() == problem.targets.observed.sum()


def test_mistakes_with_bins_are_named() -> None:
    problem = drawn(4, 5, 0)
    with pytest.raises(UserError, match="0 bins"):
        BinnedScores.empty(5, 0)
    with pytest.raises(UserError, match="5 labels for bins of 3"):
        BinnedScores.empty(3).count(problem.scores, problem.targets)
