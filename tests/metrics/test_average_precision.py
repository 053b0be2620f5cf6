"""Average precision against scikit-learn, one class at a time, on the observed items only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.targets import Targets
from raretag.metrics.evaluation import grouped_means
from raretag.metrics.precision_curve import average_precision


def all_observed(value: Tensor) -> Targets:
    return Targets(value, torch.ones(value.shape, dtype=torch.bool))


def by_scikit_learn(scores: Tensor, targets: Targets) -> np.ndarray:
    result = np.full(scores.shape[1], np.nan)
    for c in range(scores.shape[1]):
        seen = targets.observed[:, c]
        truth = targets.value[seen, c].numpy()
        if truth.sum() > 0:
            result[c] = average_precision_score(truth, scores[seen, c].double().numpy())
    return result


FEW = [-1.5, -0.0, 0.0, 0.25, 1e-45, -1e-45, 3.0, 1e30, -1e30]  # many ties, both zeros, denormals, far ends


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Targets]:
    bits = draw(st.sampled_from([32, 64]))
    shape = (draw(st.integers(1, 40)), draw(st.integers(1, 4)))
    dtype = np.float32 if bits == 32 else np.float64
    few = st.sampled_from([float(dtype(score)) for score in FEW])
    # scikit-learn sorts float32 as given and refuses infinities; it also takes differences of scores, so no overflow
    many = st.floats(-(2.0**100), 2.0**100, width=bits, allow_subnormal=False)
    scores = draw(hnp.arrays(dtype, shape, elements=draw(st.sampled_from([few, many]))))
    value = draw(hnp.arrays(np.float32, shape, elements=st.sampled_from([0.0, 1.0])))
    observed = draw(hnp.arrays(np.bool_, shape))
    return torch.from_numpy(scores), Targets(torch.from_numpy(value), torch.from_numpy(observed))


@settings(max_examples=400, deadline=None)
@given(problems())
def test_equals_scikit_learn_on_the_observed_items(problem: tuple[Tensor, Targets]) -> None:
    scores, targets = problem
    result = average_precision(scores, targets)
    assert result.dtype == torch.float64
    np.testing.assert_allclose(result.numpy(), by_scikit_learn(scores, targets), rtol=0, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_to_the_bit(problem, random) -> None:
    scores, targets = problem
    rows = list(range(len(scores)))
    random.shuffle(rows)
    shuffled = average_precision(scores[rows], targets[torch.tensor(rows)])
    assert shuffled.numpy().tobytes() == average_precision(scores, targets).numpy().tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("decimals", [1, 8])
def test_equals_scikit_learn_over_many_blocks_of_classes(dtype: torch.dtype, decimals: int) -> None:
    chance = torch.Generator().manual_seed(0)
    scores = torch.randn(3000, 200, generator=chance, dtype=torch.float64).round(decimals=decimals).to(dtype)
    value = (torch.rand(3000, 200, generator=chance) < 0.02).float()
    targets = Targets(value, torch.rand(3000, 200, generator=chance) < 0.8)
    np.testing.assert_allclose(
        average_precision(scores, targets).numpy(), by_scikit_learn(scores, targets), rtol=0, atol=1e-12
    )


# The same eight items by three rules: scikit-learn's, and the order-dependent one on the rows as given and reversed.
TIED = torch.tensor([0.9, 0.8, 0.8, 0.8, 0.5, 0.3, 0.3, 0.1])[:, None]
TRUTH = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])[:, None]


@pytest.mark.parametrize(
    ("ties", "reverse", "expected"),
    [
        ("grouped", False, 0.6678571428571428),
        ("grouped", True, 0.6678571428571428),
        ("order", True, 0.7095238077499999),
    ],
)
def test_published_rules_for_ties(ties, reverse: bool, expected: float) -> None:
    scores, value = (TIED.flip(0), TRUTH.flip(0)) if reverse else (TIED, TRUTH)
    assert average_precision(scores, all_observed(value), ties=ties).item() == pytest.approx(expected, abs=1e-12)


def test_the_order_dependent_rule_is_that_of_the_published_code() -> None:
    order = np.argsort(TIED[:, 0].numpy())[::-1]
    hits = TRUTH[:, 0].numpy()[order].astype(float)
    expected = sum(hits[: i + 1].sum() / (i + 1) for i in range(8) if hits[i]) / (4 + 1e-8)
    result = average_precision(TIED, all_observed(TRUTH), ties="order").item()
    assert result == pytest.approx(expected, abs=1e-12)
    # numpy's default sort is not stable: the first value comes from its vectorised sort, the second from the plain one
    assert min(abs(result - 0.6916666649375), abs(result - 0.7333333315)) < 1e-12


@pytest.mark.parametrize("ties", ["grouped", "order"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_that_cannot_be_evaluated_are_nan_and_counted(ties, dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.9, 0.9, 0.9, 0.9], [0.1, 0.1, 0.1, 0.1]], dtype=dtype)
    value = torch.tensor([[1.0, 0.0, torch.nan, 1.0], [0.0, 0.0, torch.nan, 1.0]])
    observed = torch.tensor([[True, True, False, True], [True, True, False, True]])
    result = average_precision(scores, Targets(value, observed), ties=ties)
    # one class is perfect, one has no positive, one was never observed, one has no negative
    torch.testing.assert_close(
        result, torch.tensor([1.0, torch.nan, torch.nan, 1.0], dtype=torch.float64), equal_nan=True
    )
    means = grouped_means(result, {"head": torch.tensor([0, 1]), "tail": torch.tensor([2])})
    assert means.total == pytest.approx(1.0)
    assert means.excluded == {"total": 2, "head": 1, "tail": 1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinite_scores_stand_at_the_ends(dtype: torch.dtype) -> None:
    scores = torch.tensor([torch.inf, -torch.inf, 0.0, 1e38], dtype=dtype)[:, None]
    value = torch.tensor([0.0, 1.0, 1.0, 0.0])[:, None]
    assert average_precision(scores, all_observed(value)).item() == pytest.approx((1 / 3 + 2 / 4) / 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_items_and_no_labels_are_no_crash(dtype: torch.dtype) -> None:
    assert average_precision(torch.zeros(0, 3, dtype=dtype), all_observed(torch.zeros(0, 3))).isnan().all()
    assert average_precision(torch.zeros(3, 0, dtype=dtype), all_observed(torch.zeros(3, 0))).shape == (0,)


def test_a_nan_score_is_refused_by_row_and_column() -> None:
    scores = torch.zeros(4, 3)
    scores[2, 1] = torch.nan
    with pytest.raises(UserError, match="row 2, column 1 is NaN"):
        average_precision(scores, all_observed(torch.zeros(4, 3)))


@pytest.mark.parametrize(
    ("scores", "value", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), "do not match"),
        (torch.zeros(2), torch.zeros(2), "do not match"),
        (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3), "expected floating point"),
        (torch.zeros(2, 3), torch.full((2, 3), 0.3), "row 0, column 0 is 0.3, expected 0 or 1"),
        (torch.zeros(2, 3), torch.full((2, 3), torch.nan), "row 0, column 0 is nan"),
    ],
)
def test_mistakes_are_named(scores: Tensor, value: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        average_precision(scores, all_observed(value))


def test_an_unknown_rule_for_ties_is_refused() -> None:
    with pytest.raises(UserError, match="ties is 'none'"):
        average_precision(TIED, all_observed(TRUTH), ties="none")  # type: ignore[arg-type]


def test_groups_are_averaged_over_the_classes_that_can_be_evaluated() -> None:
    per_class = torch.tensor([0.2, torch.nan, 0.4, 0.9], dtype=torch.float64)
    groups = {"head": torch.tensor([0, 1]), "medium": torch.tensor([], dtype=torch.int64), "tail": torch.tensor([2, 3])}
    assert grouped_means(per_class, groups).as_dict() == {
        "total": pytest.approx(0.5),
        "head": pytest.approx(0.2),
        "medium": None,
        "tail": pytest.approx(0.65),
        "mean_of_groups": pytest.approx(0.425),  # a group without classes has nothing to say
        "excluded": {"total": 1, "head": 1, "medium": 0, "tail": 0},
    }
    # but a group whose classes all lack positives would say something if it could
    assert grouped_means(per_class, {"head": torch.tensor([0]), "tail": torch.tensor([1])}).as_dict() == {
        "total": pytest.approx(0.5),
        "head": pytest.approx(0.2),
        "tail": None,
        "mean_of_groups": None,
        "excluded": {"total": 1, "head": 0, "tail": 1},
    }
    with pytest.raises(UserError, match="a group is called 'total'"):
        grouped_means(per_class, {"total": torch.tensor([0])})
