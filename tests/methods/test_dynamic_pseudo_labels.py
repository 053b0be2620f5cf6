"""What the memory of pseudo-labels holds, when it drifts, and how it is kept."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.targets import LabelStatistics, Targets
from raretag.methods.dynamic_pseudo_labels import Remembered, observed_prior
from raretag.objective import item_memory as memory_module
from raretag.objective.item_memory import ItemMemory

POSITIVES = torch.tensor([8, 4, 1])
ITEMS = 40
PPL = LabelStatistics(POSITIVES, torch.zeros(3, dtype=torch.int64), ITEMS)  # positives alone


def make(statistics: LabelStatistics = PPL, **options: Any) -> Method:
    return build_method("dynamic_pseudo_labels", statistics, items=ITEMS, **options)


def remembered(method: Method) -> Remembered:
    part = method.objective.complete
    assert isinstance(part, Remembered)
    return part


def memory_of(method: Method, items: Tensor) -> Tensor:
    return remembered(method).memory.read(items)


def blind(rows: int) -> Targets:
    return Targets(torch.full((rows, 3), torch.nan), torch.zeros(rows, 3, dtype=torch.bool))


def test_an_unknown_label_is_what_the_network_said_at_the_last_visit() -> None:
    method = make(reading="paper", q=1.0)
    items, logits = torch.tensor([7, 3]), torch.tensor([[0.0, 2.0, -1.0], [1.0, -2.0, 0.5]])
    completed = remembered(method)(logits, blind(2), Context(items, 0, 5))
    assert completed.value.eq(0.5).all()
    method.loss(logits, blind(2), Context(items, 0, 5))
    again = remembered(method)(torch.zeros(2, 3), blind(2), Context(items.flip(0), 1, 5))
    torch.testing.assert_close(again.value, torch.sigmoid(logits).flip(0), rtol=0, atol=5e-4)  # two bytes
    assert memory_of(method, torch.tensor([0, 39])).eq(0.5).all(), "nobody else changed"


def test_observed_labels_are_what_was_observed_and_always_counted() -> None:
    method = make(q=0.01)
    targets = Targets(torch.tensor([[1.0, 0.0, 0.3]]), torch.tensor([[True, True, False]]))
    completed = remembered(method)(torch.zeros(1, 3), targets, Context(torch.tensor([0])))
    assert completed.value[0, :2].tolist() == [1.0, 0.0]
    assert completed.counted[0, :2].all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lambda prior, p: 0.9 * (0.9 * prior + 0.1 * p) + 0.1 * p),
        ({"momentum": 0.5, "initial": 0.2}, lambda prior, p: 0.5 * (0.5 * 0.2 + 0.5 * p) + 0.5 * p),
        ({"anchor": "prior"}, lambda prior, p: 0.9 * prior + 0.1 * p),
        ({"reading": "paper"}, lambda prior, p: p),
    ],
    ids=["repaired", "faster", "anchored", "paper"],
)
def test_two_visits_refresh_the_memory(options: dict[str, Any], expected: Any) -> None:
    method = make(**options)
    items, logits = torch.tensor([5]), torch.tensor([[1.0, -1.0, 0.0]])
    for _ in range(2):
        method.loss(logits, blind(1), Context(items))
    torch.testing.assert_close(
        memory_of(method, items), expected(POSITIVES / ITEMS, torch.sigmoid(logits)), rtol=0, atol=1e-3
    )


def test_evaluating_teaches_nothing() -> None:
    method = make().eval()
    before = method.state_dict()["objective.complete.memory.stored"].clone()
    method.loss(torch.randn(4, 3), blind(4), Context(torch.arange(4)))
    assert torch.equal(method.state_dict()["objective.complete.memory.stored"], before)


def test_an_item_that_comes_twice_is_remembered_as_it_came_last() -> None:
    method = make(reading="paper")
    logits = torch.tensor([[0.0, 0.0, 0.0], [3.0, 3.0, 3.0], [1.0, 2.0, -1.0]])
    method.loss(logits, blind(3), Context(torch.tensor([6, 2, 6])))
    torch.testing.assert_close(
        memory_of(method, torch.tensor([6, 2])), torch.sigmoid(logits[[2, 1]]), rtol=0, atol=5e-4
    )


def test_q_of_the_unknown_labels_are_picked_anew_each_epoch() -> None:
    statistics = LabelStatistics(POSITIVES, torch.zeros(3, dtype=torch.int64), 20_000)
    method = build_method("dynamic_pseudo_labels", statistics, items=20_000, q=0.3)
    items = torch.arange(20_000)
    first, second = (
        remembered(method)(torch.zeros(20_000, 3), blind(20_000), Context(items, epoch)).counted for epoch in (0, 1)
    )
    share = (0.3 * 0.7 / first.numel()) ** 0.5
    assert abs(first.double().mean() - 0.3) < 4 * share
    assert abs((first & second).double().mean() - 0.09) < 4 * share, "independent of the epoch before"
    part = remembered(method)(torch.zeros(9, 3), blind(9), Context(items[50:59], 0)).counted
    assert torch.equal(part, first[50:59]), "whatever the batch"


def test_the_prior_is_of_the_observed_where_negatives_are_observed_and_of_all_elsewhere() -> None:
    statistics = LabelStatistics(torch.tensor([3, 3, 0]), torch.tensor([9, 0, 0]), 40)
    assert observed_prior(statistics).tolist() == [3 / 12, 3 / 40, 0.0]


def test_aligning_gives_each_label_its_prior_as_mean_of_the_unknown() -> None:
    method = make(reading="paper", anchor="align")
    generator = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(ITEMS, 3, generator=generator) + 1
    value = torch.rand(ITEMS, 3, generator=generator).lt(0.2).float()
    observed = torch.rand(ITEMS, 3, generator=generator) < 0.3
    items = torch.arange(ITEMS)
    method.loss(logits, Targets(value, observed), Context(items))
    method.end_epoch(Context())
    pseudo = memory_of(method, items)
    assert torch.equal(pseudo.isnan(), observed), "there is no pseudo-label where somebody looked"
    torch.testing.assert_close(pseudo.nanmean(0), POSITIVES / ITEMS, rtol=1e-3, atol=1e-4)
    shift = torch.where(observed, 0.0, torch.logit(pseudo.double()) - logits)
    spread = [shift[~observed[:, c], c].std() for c in range(3)]
    assert max(spread) < 0.02, "one shift for all pseudo-labels of a label"


def minimised(method: Method, epochs: int) -> list[float]:
    """Free logits for each item and label, trained under positives alone; the mean pseudo-label after each epoch."""
    generator = torch.Generator().manual_seed(1)
    value = torch.zeros(ITEMS, 3)
    for c, n in enumerate(POSITIVES.tolist()):
        value[torch.randperm(ITEMS, generator=generator)[:n], c] = 1.0
    targets = Targets(value, value > 0)
    logits = torch.zeros(ITEMS, 3, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.3)
    means = []
    for epoch in range(epochs):
        context = Context(torch.arange(ITEMS), epoch, epochs)
        for _ in range(25):
            method.eval()
            optimizer.zero_grad()
            method.loss(logits, targets, context).backward()
            optimizer.step()
        method.train()
        method.loss(logits.detach(), targets, context)
        method.end_epoch(context)
        means.append(method.vital_signs()["mean_pseudo_label"])
    return means


def test_as_printed_the_pseudo_labels_drift_to_one_and_a_warning_says_so_once() -> None:
    with pytest.warns(RuntimeWarning, match="pseudo-labels drift") as caught:
        means = minimised(make(reading="paper"), 8)
    assert means[-1] > 0.97
    assert len(caught) == 1


def test_repaired_the_pseudo_labels_stay_near_the_prior_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        means = minimised(make(), 8)
    assert max(means) < 2 * float(POSITIVES.double().mean() / ITEMS)


def test_observed_labels_alone_need_no_memory() -> None:
    method = make(schedule="zero", balance="batch")
    assert not any("memory" in name for name in method.state_dict())
    logits = torch.randn(2, 3, requires_grad=True)
    targets = Targets(torch.ones(2, 3), torch.tensor([[True, False, False], [False, False, True]]))
    method.loss(logits, targets).backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad != 0, targets.observed)


def test_reduces_to_half_of_cross_entropy_if_all_is_observed() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, value = torch.randn(5, 3, generator=generator), torch.rand(5, 3, generator=generator).round()
    targets, context = Targets(value, torch.ones(5, 3, dtype=torch.bool)), Context(torch.arange(5))
    plain = build_method("binary_cross_entropy", PPL, items=ITEMS, reduce="rows").loss(logits, targets)
    torch.testing.assert_close(make(penalty=False).loss(logits, targets, context), plain / 3 / 2)


def test_vital_signs() -> None:
    method = make(q=0.4)
    method.loss(torch.zeros(2, 3), blind(2), Context(torch.arange(2), 7, 10))
    method.end_epoch(Context(epoch=7, epochs=10))
    signs = method.vital_signs()
    assert signs["unknown_weight"] == 1.0
    assert signs["picked_share"] == 0.4
    # Two of forty items have moved a tenth of the way from the prior to .5.
    prior = float(POSITIVES.double().mean()) / ITEMS
    assert signs["mean_pseudo_label"] == pytest.approx(prior + 0.05 * 0.1 * (0.5 - prior), rel=1e-3)


@pytest.mark.parametrize("precision", ["float16", "uint8"])
def test_a_memory_keeps_numbers_and_gaps(precision: Any) -> None:
    memory = ItemMemory(6, torch.tensor([0.0, 1.0, 0.5]), precision=precision)
    memory.write(torch.tensor([4]), torch.tensor([[0.25, torch.nan, 1.0]]), epoch=0)
    read = memory.read(torch.tensor([4]))
    torch.testing.assert_close(read, torch.tensor([[0.25, torch.nan, 1.0]]), equal_nan=True, rtol=0, atol=4e-3)
    assert memory.read(torch.tensor([0]))[0, :2].tolist() == [0.0, 1.0]
    assert memory.stored.element_size() == {"float16": 2, "uint8": 1}[precision]
    assert memory.to(torch.float64).stored.element_size() == memory.stored.element_size()
    assert torch.equal(memory.read(torch.tensor([4])).isnan(), read.isnan())


def test_bytes_are_right_on_average_and_can_creep() -> None:
    memory = ItemMemory(4000, torch.tensor([0.0103]), precision="uint8")
    assert float(memory.mean()) == pytest.approx(0.0103, abs=1e-4)
    items = torch.arange(4000)
    for epoch in range(40):  # each step is a fiftieth of a byte's step, which rounding to the nearest would swallow
        memory.write(items, 0.98 * memory.read(items) + 0.02 * 0.0153, epoch)
    assert float(memory.mean()) == pytest.approx(0.0153 - 0.005 * 0.98**40, abs=2e-4)


def test_a_large_memory_is_a_file_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    large, small = (ItemMemory(50, torch.tensor([0.1, 0.2]), map_above=limit) for limit in (0, 10**9))
    assert large.mapped
    assert not small.mapped
    assert list(tmp_path.iterdir()) == []
    for memory in (large, small):
        memory.write(torch.tensor([3, 49]), torch.tensor([[0.5, 0.6], [0.7, 0.8]]), epoch=0)
    assert torch.equal(large.stored, small.stored)
    assert large.to("meta").stored.device.type == "cpu", "it does not move with the model"
    again = ItemMemory(50, torch.tensor([0.0, 0.0]), map_above=0)
    again.load_state_dict(large.state_dict())
    assert torch.equal(again.stored, large.stored)


def test_the_mean_of_a_memory_does_not_depend_on_the_size_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ItemMemory(103, torch.tensor([0.0, 0.0]))
    values = torch.rand(103, 2, generator=torch.Generator().manual_seed(0))
    values[:20, 1] = torch.nan
    memory.write(torch.arange(103), values, epoch=0)
    torch.testing.assert_close(memory.mean(), values.half().double().nanmean(0))
    whole = memory.mean(lambda t: t * t)
    monkeypatch.setattr(memory_module, "BLOCK", 10)
    torch.testing.assert_close(memory.mean(lambda t: t * t), whole)
    torch.testing.assert_close(memory.mean(sample=51), values[::2].half().double().nanmean(0))


def test_a_checkpoint_in_the_middle_of_an_epoch_loses_nothing() -> None:
    first, second = make(precision="uint8"), make(precision="uint8", initial=0.7)
    logits = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
    first.loss(logits, blind(10), Context(torch.arange(10)))
    second.load_state_dict(first.state_dict())
    results = [method.loss(logits, blind(10), Context(torch.arange(5, 15))) for method in (first, second)]
    assert torch.equal(*results)
    assert torch.equal(*(method.state_dict()["objective.complete.memory.stored"] for method in (first, second)))


@pytest.mark.parametrize(
    "options",
    [
        {"q": 0.0},
        {"q": 1.5},
        {"momentum": 1.0},
        {"balance": "half"},
        {"balance": 2.0},
        {"initial": -0.5},
        {"initial": "mean"},
        {"gamma": 2.0},
        {"reading": "mine"},
        {"schedule": "cosine"},
        {"precision": "float32"},
    ],
)
def test_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        make(**options)


def test_asks_for_the_items() -> None:
    with pytest.raises(UserError, match="index"):
        make().loss(torch.zeros(2, 3), blind(2))
