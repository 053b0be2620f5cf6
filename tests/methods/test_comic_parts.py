"""The corrector and the multi-focal modifier of COMIC: what they count, when they act, and what holds them back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.targets import Completed, LabelStatistics, Targets
from raretag.methods.multi_focal import MultiFocalScore
from raretag.methods.reflective_correction import Corrector

STATISTICS = LabelStatistics.of_counts([6, 3, 1], 20)
LATE = Context(epoch=5, epochs=10)
BASE: Any = "binary_cross_entropy"


def make(statistics: LabelStatistics = STATISTICS, **options: Any) -> Method:
    return build_method("reflective_correction", statistics, items=20, **{"base": BASE, **options})


def corrector(method: Method) -> Corrector:
    part = method.objective.complete
    assert isinstance(part, Corrector)
    return part


def unknown(rows: int) -> Targets:
    return Targets(torch.full((rows, 3), torch.nan), torch.zeros(rows, 3, dtype=torch.bool))


def logit(*p: float) -> Tensor:
    return torch.logit(torch.tensor([list(p)], dtype=torch.float64))


def test_confident_unknown_labels_become_positive_and_observed_ones_never_change() -> None:
    targets = Targets(
        torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([[True, True, False], [False] * 3])
    )
    z = torch.cat([logit(0.9, 0.1, 0.9), logit(0.8, 0.6, 0.5)])
    completed = corrector(make())(z, targets, LATE)
    assert completed.value.tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    assert completed.counted.tolist() == [[True, True, True], [True, False, False]]
    assert torch.equal(completed.observed, targets.observed)


def test_nothing_is_corrected_before_the_warm_up_is_over() -> None:
    method = make()
    for epoch, begun in ((0, False), (1, True), (9, True)):
        completed = corrector(method)(logit(0.9, 0.9, 0.9), unknown(1), Context(epoch=epoch, epochs=10))
        assert bool(completed.value.any()) is begun


def test_the_threshold_rises_with_the_running_mean_of_the_label() -> None:
    method = make(tau=0.5, warm_up=1.0)
    for p in ((0.9, 0.2, 0.6), (0.7, 0.4, 0.6)):
        method.loss(logit(*p), unknown(1), LATE)
    part = corrector(method)
    part.warm_up = 0.0
    torch.testing.assert_close(part.mean(torch.zeros(0)), torch.tensor([0.8, 0.3, 0.6], dtype=torch.float64))
    assert part.corrections(logit(0.75, 0.45, 0.61), unknown(1), LATE).tolist() == [[False, False, True]]
    assert part.corrections(logit(0.85, 0.55, 0.59), unknown(1), LATE).tolist() == [[True, True, False]]


def test_the_mean_may_be_that_of_the_observed_positives_or_of_the_batch() -> None:
    targets = Targets(torch.tensor([[1.0, 0.0, 0.0]] * 2), torch.tensor([[True, True, False]] * 2))
    z = torch.cat([logit(0.6, 0.9, 0.9), logit(0.8, 0.9, 0.9)])
    positives, batch = make(mean_of="positives"), make(mean_of="batch")
    for method in (positives, batch):
        method.loss(z, targets, LATE)
    assert corrector(positives).mean(z)[0] == pytest.approx(0.7)
    assert corrector(positives).mean(z)[1:].tolist() == [0.0, 0.0]
    torch.testing.assert_close(corrector(batch).mean(torch.sigmoid(z[:1])), torch.sigmoid(z[0]))


def test_a_label_gets_at_most_its_cap_of_corrections_in_an_epoch() -> None:
    method = make(cap=1.0, mean_of="positives")  # of which there are none: the threshold is tau
    sure = logit(0.95, 0.95, 0.95).repeat(2, 1)
    for _ in range(5):
        method.loss(sure, unknown(2), LATE)
    assert corrector(method).corrected.tolist() == [6, 2, 0]  # of at most 6, 3, 1, in twos
    method.end_epoch(LATE)
    assert method.vital_signs() == {"corrected_last_epoch": 8.0, "corrected_ever": 8.0}
    method.loss(sure[:1], unknown(1), LATE)
    assert corrector(method).corrected.tolist() == [1, 1, 1]
    method.end_epoch(LATE)
    assert method.vital_signs() == {"corrected_last_epoch": 3.0, "corrected_ever": 11.0}


def test_the_cap_counts_the_corrections_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raretag.core.processes.total", lambda value: 2 * value)  # another process with such a batch
    corrections = corrector(make()).corrections(logit(0.95, 0.95, 0.95), unknown(1), LATE)
    assert corrections.tolist() == [[True, True, False]]


def test_without_a_cap_everything_confident_is_corrected() -> None:
    method = make(cap=None, mean_of="positives")
    for _ in range(5):
        method.loss(logit(0.95, 0.95, 0.95).repeat(2, 1), unknown(2), LATE)
    assert corrector(method).corrected.tolist() == [10, 10, 10]


def test_no_gradient_asks_for_a_correction() -> None:
    z = logit(0.9, 0.1, 0.9).requires_grad_()
    make(cap=None).loss(z, unknown(1), LATE).backward()
    p = torch.sigmoid(z.detach())
    assert z.grad is not None
    torch.testing.assert_close(z.grad, torch.where(p > 0.7, (p - 1) / 3, 0.0))


def test_corrections_serve_other_objectives() -> None:
    statistics = LabelStatistics.of_counts([6, 3, 1], 20)
    method = build_method(
        "combined",
        statistics,
        items=20,
        base="distribution_balanced",
        complete={"name": "reflective_correction", "tau": 0.6},
    )
    plain = build_method("distribution_balanced", statistics, items=20)
    z, context = logit(0.9, 0.1, 0.2), Context(torch.tensor([0]), 5, 10)
    corrected = Targets(torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(method.loss(z, unknown(1), context), plain.loss(z, corrected, context))
    method.end_epoch(context)
    assert method.vital_signs()["corrected_last_epoch"] == 1.0


def test_a_checkpoint_in_the_middle_of_an_epoch_loses_nothing() -> None:
    options = {"tau": 0.3, "base": {"name": "multi_focal", "distribution": "dynamic"}}
    first, second = make(**options), make(LabelStatistics.of_counts([1, 1, 1], 20), **options)
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 4, 3, generator=generator, dtype=torch.float64)
    first.loss(z[0], unknown(4), LATE)
    second.load_state_dict(first.state_dict())
    for batch in z[1:]:
        assert torch.equal(first.loss(batch, unknown(4), LATE), second.loss(batch, unknown(4), LATE))
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )
    assert corrector(first).corrected.any()


@pytest.mark.parametrize(
    "options",
    [
        {"tau": 1.5},
        {"warm_up": 2.0},
        {"cap": -1.0},
        {"scale": "rows"},
        {"base": "reflective_correction"},
        {"base": "expected_positive"},
        {"base": "negative_tolerant", "margin": 1.0},
    ],
)
def test_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        make(**options)


def score_of(method: Method) -> MultiFocalScore:
    score = method.objective.score
    assert isinstance(score, MultiFocalScore)
    return score


def test_rare_labels_have_the_larger_head_tail_factor() -> None:
    score = score_of(build_method("multi_focal", LabelStatistics.of_counts([100, 10, 1, 0], 200), items=200))
    factor = score._factor(torch.zeros(1, 4, dtype=torch.float64), Completed(*[torch.zeros(1, 4).bool()] * 3))
    expected = [(1 - torch.log(torch.tensor(n / 100.0)).item()) ** (1 / 6) for n in (100, 10, 1, 1)]
    assert factor.tolist() == pytest.approx(expected)


def test_the_dynamic_distribution_counts_corrected_labels_until_the_epoch_ends() -> None:
    method = make(base={"name": "multi_focal", "distribution": "dynamic"}, cap=None, mean_of="positives")
    score = score_of(method)
    sure = logit(0.9, 0.1, 0.9)
    twice = [method.objective(sure, unknown(1), LATE) for _ in range(2)]
    assert torch.equal(*twice), "asking for a loss is not a step"
    assert not score.added.any()
    for _ in range(2):
        method.loss(sure, unknown(1), LATE)
    assert score.added.tolist() == [2.0, 0.0, 2.0]
    factor = score._factor(sure, corrector(method)(sure, unknown(1), LATE))
    counts = torch.tensor([9.0, 3.0, 4.0], dtype=torch.float64)  # those of the batch at hand count too
    torch.testing.assert_close(factor, (1 - torch.log(counts / 9)) ** (1 / 6))
    method.end_epoch(LATE)
    assert not score.added.any()


def test_the_static_distribution_ignores_corrections() -> None:
    method = make(base="multi_focal", cap=None, mean_of="positives")
    z = logit(0.9, 0.1, 0.9)
    losses = [method.loss(z, unknown(1), LATE) for _ in range(3)]
    assert losses[0] == losses[2]


def test_as_printed_rare_positives_weigh_less_and_by_default_they_do_not() -> None:
    statistics, z = LabelStatistics.of_counts([100, 1], 200), torch.zeros(1, 2, dtype=torch.float64)
    targets = Targets(torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool))
    for weight, lower in ((1.0, True), (0.0, False)):
        method = build_method("multi_focal", statistics, items=200, head_tail_pos=weight)
        frequent, rare = method.objective.terms(z, targets)[0][0]
        assert bool(rare < frequent) is lower


@pytest.mark.parametrize("options", [{"gamma_neg": -1.0}, {"root": -1.0}, {"margin": 1.0}, {"distribution": "moving"}])
def test_multi_focal_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        build_method("multi_focal", STATISTICS, items=20, **options)
