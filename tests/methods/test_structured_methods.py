"""ML-GCN, LWS and OLTR: what their stages train, what is remembered between stages, and the loss with distances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.registry import build, names
from raretag.core.targets import LabelStatistics, Targets
from raretag.methods.oltr import centroids
from raretag.models.assemble import Single
from raretag.models.mlp import Mlp
from support.two_processes import in_two

PAIRS = torch.tensor([[4, 2, 1], [2, 3, 0], [1, 0, 2]])
STATISTICS = LabelStatistics(torch.tensor([4, 3, 2]), torch.tensor([3, 4, 5]), 7, PAIRS)
STRUCTURED = ("ml_gcn", "lws", "oltr")
ROWS, SIZE = 7, 4


def method(name: str, **options: Any) -> Method:
    return build_method(name, STATISTICS, items=ROWS, **options)


def model(name: str) -> Any:
    """The model that a method asks for, as an engine builds it."""
    torch.manual_seed(0)
    wanted = method(name)
    assert wanted.branches == "single"
    return Single(
        lambda: Mlp(SIZE, width=5, dropout=0.0),
        lambda features: build("models.heads", wanted.head, {}, features=features, labels=3, statistics=STATISTICS),
    ).double()


def inputs() -> Tensor:
    return torch.randn(ROWS, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def targets() -> Targets:
    generator = torch.Generator().manual_seed(2)
    value = torch.rand(ROWS, 3, generator=generator).lt(0.5).double()
    observed = torch.rand(ROWS, 3, generator=generator) < 0.8
    return Targets(torch.where(observed, value, torch.nan), observed)


def batches(network: Any, rows: slice = slice(None)) -> Iterator[tuple[Tensor, Targets]]:
    with torch.no_grad():
        for part in torch.arange(ROWS)[rows].split(2):
            yield network.backbone(inputs()[part]), targets()[part]


def learning(name: str, stage: int) -> set[str]:
    pattern = method(name).stages[stage].trains
    return {key for key, _ in model(name).named_parameters() if re.search(pattern, key)}


def test_stages_fill_the_epochs_and_sample_as_the_papers_do() -> None:
    for name in STRUCTURED:
        assert sum(stage.share for stage in method(name).stages) == pytest.approx(1.0)
    for name in ("lws", "oltr"):
        assert [stage.sampler for stage in method(name).stages] == [None, "class_aware"]  # None: the run's own
    assert {"uniform", "class_aware"} <= set(names("sampling"))


def test_scales_learn_last_and_alone() -> None:
    every = {key for key, _ in model("lws").named_parameters()}
    assert learning("lws", 1) == {"head.scale"}
    assert learning("lws", 0) == every - {"head.scale"}
    assert "head.classify.bias" in every


def test_the_memory_learns_in_the_second_stage() -> None:
    every = {key for key, _ in model("oltr").named_parameters()}
    assert learning("oltr", 1) == every
    assert {key.split(".")[1] for key in learning("oltr", 0)} == {"layers", "classify"}
    assert {"head.centroids", "head.cosine.weight", "head.select.weight"} <= every - learning("oltr", 0)


@pytest.mark.parametrize("name", STRUCTURED)
def test_the_model_that_a_method_asks_for_learns_in_all_its_stages(name: str) -> None:
    network, made = model(name), method(name)
    for number, stage in enumerate(made.stages):
        made.begin_stage(number, network, lambda: batches(network))
        for key, parameter in network.named_parameters():
            parameter.requires_grad_(re.search(stage.trains, key) is not None)
        optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], 0.01)
        losses = []
        for _ in range(20):
            loss = made.loss(network(inputs()), targets())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            assert all(p.grad is not None for p in network.parameters() if p.requires_grad), "none is without use"
        assert losses[-1] < losses[0]
    assert made.logits(network(inputs())).shape == (ROWS, 3)


def test_a_centroid_is_the_mean_of_the_items_with_the_label() -> None:
    network = model("oltr")
    features = network.backbone(inputs()).detach()
    there = targets().positive.bool()
    expected = torch.stack([features[there[:, c]].mean(0) for c in range(3)])
    torch.testing.assert_close(centroids(batches(network)), expected)


def test_a_label_without_items_remembers_the_mean_of_all() -> None:
    features = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    nothing = Targets(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([[True, True], [True, False]]))
    assert centroids(iter([(features, nothing)])).tolist() == [[2.0, 4.0], [2.0, 4.0]]
    with pytest.raises(UserError, match="no training items"):
        centroids(iter([]))


def expected_loss(logits: Tensor, distance: Tensor, weight: float, repel_weight: float, margin: float) -> float:
    y = targets().positive
    attract = [
        sum(d for d, t in zip(row, there, strict=True) if t) / max(1, sum(there)) / 2
        for row, there in zip(distance.tolist(), y.tolist(), strict=True)
    ]
    absent = [
        d
        for row, there in zip(distance.tolist(), y.tolist(), strict=True)
        for d, t in zip(row, there, strict=True)
        if not t
    ]
    repel = max(0.0, margin - sum(absent) / len(absent))
    bce = binary_cross_entropy_with_logits(logits, y).item()
    return bce + weight * (sum(attract) / len(attract) + repel_weight * repel)


@pytest.mark.parametrize(("repel_weight", "margin"), [(0.01, 10.0), (1.0, 0.5), (2.0, 1e3)])
def test_labels_attract_their_items_and_repel_the_others(repel_weight: float, margin: float) -> None:
    network, made = model("oltr"), method("oltr", weight=0.5, repel_weight=repel_weight, margin=margin)
    first = made.loss(network(inputs()), targets())
    torch.testing.assert_close(
        first, binary_cross_entropy_with_logits(network(inputs())[0], targets().positive), msg="stage 1 is plain"
    )
    made.begin_stage(1, network, lambda: batches(network))
    logits, distance = (value.detach() for value in network(inputs()))
    loss = made.loss((logits, distance), targets())
    assert loss.item() == pytest.approx(expected_loss(logits, distance, 0.5, repel_weight, margin))
    assert torch.autograd.gradcheck(lambda d: made.loss((logits, d), targets()), distance.clone().requires_grad_())


def test_unknown_labels_neither_attract_nor_repel_if_ignored() -> None:
    network, made = model("oltr"), method("oltr", weight=1.0, repel_weight=1.0, margin=1e3, unknown="ignore")
    made.begin_stage(1, network, lambda: batches(network))
    logits, distance = (value.detach() for value in network(inputs()))
    (slope,) = torch.autograd.grad(made.loss((logits, distance.requires_grad_()), targets()), distance)
    assert not slope[~targets().observed].any()
    assert slope[targets().observed].all()


def test_a_checkpoint_knows_that_the_memory_is_filled() -> None:
    network, made = model("oltr"), method("oltr")
    made.begin_stage(1, network, lambda: batches(network))
    again, other = model("oltr"), method("oltr")
    again.load_state_dict(network.state_dict())
    other.load_state_dict(made.state_dict())
    losses = [m.loss(n(inputs()), targets()) for m, n in ((made, network), (other, again))]
    assert torch.equal(*losses)
    assert bool(other.remembers)


def test_oltr_wants_the_head_that_remembers() -> None:
    with pytest.raises(UserError, match="needs the head 'memory', got Scaled"):
        method("oltr").begin_stage(0, model("lws"), lambda: iter([]))
    with pytest.raises(UserError, match="0 or more"):
        method("oltr", margin=-1.0)


def second_stage(rows: slice) -> list[Tensor]:
    network, made = model("oltr"), method("oltr", weight=1.0, repel_weight=1.0, margin=6.0)
    made.begin_stage(1, network, lambda: batches(network, rows))
    loss = made.loss(network(inputs()[rows]), targets()[rows])
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in network.parameters())]


def work(rank: int, folder: str) -> None:
    torch.save(second_stage(slice(rank, None, 2)), f"{folder}/{rank}.pt")


def test_two_processes_are_one(tmp_path: Path) -> None:
    in_two(work, tmp_path)
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for a, b, one in zip(*shares, second_stage(slice(None)), strict=True):
        torch.testing.assert_close((a + b) / 2, one, rtol=1e-10, atol=1e-10)
