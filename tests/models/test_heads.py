"""Heads: what they compute, against plain loops and golden numbers, and what they refuse."""

from __future__ import annotations

from math import sqrt, tanh
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.registry import build, names
from raretag.core.targets import LabelStatistics
from raretag.models.heads.label_graph import LabelGraph, adjacency
from raretag.models.heads.memory import Memory
from raretag.models.heads.normalised import Normalised
from support.golden_with_models import learned_scales
from support.paths import GOLDEN

LABELS, FEATURES = 3, 4
PAIRS = torch.tensor([[60, 30, 5], [30, 40, 2], [5, 2, 8]])
STATISTICS = LabelStatistics(torch.tensor([60, 40, 8]), torch.tensor([40, 60, 92]), 100, PAIRS)


def make(name: str, seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    offered = {"features": FEATURES, "labels": LABELS, "statistics": STATISTICS}
    return build("models.heads", name, options, **offered).double()


def some(rows: int = 5) -> Tensor:
    return torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("name", names("models.heads"))
def test_every_head_gives_one_logit_for_each_label_and_learns(name: str) -> None:
    head = make(name)
    outputs = head(some())
    logits = outputs[0] if isinstance(outputs, tuple) else outputs
    assert logits.shape == (5, LABELS)
    logits.square().sum().backward()
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in head.parameters())
    other = make(name, seed=1)
    other.load_state_dict(head.state_dict())
    both = [model.eval()(some()) for model in (head, other)]
    both = [value[0] if isinstance(value, tuple) else value for value in both]
    assert torch.equal(*both), "the state carries all that it knows"


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("squash", [False, True])
def test_cosine_is_the_scaled_cosine(squash: bool) -> None:
    head = make("cosine", squash=squash)
    for row, logits in zip(some().tolist(), head(some()).tolist(), strict=True):
        length = sqrt(dot(row, row))
        shrunk = length / (1 + length) if squash else 1.0
        expected = [16 * shrunk * dot(row, w) / length / sqrt(dot(w, w)) for w in head.weight.tolist()]
        assert logits == pytest.approx(expected)


def test_boosted_multiplies_the_positive_evidence_of_each_place() -> None:
    head = make("boosted", alpha=3.0)
    maps = torch.randn(2, FEATURES, 2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weight, bias = head.classify.weight.tolist(), head.classify.bias.tolist()
    for image, logits in zip(maps.flatten(2).transpose(1, 2).tolist(), head(maps).tolist(), strict=True):
        evidence = [[dot(w, place) + b for place in image] for w, b in zip(weight, bias, strict=True)]
        assert logits == pytest.approx([sum(3 * a if a > 0 else a for a in row) / 6 for row in evidence])


def test_cosine_has_a_gradient_for_features_of_length_zero() -> None:
    for squash in (False, True):
        zero = torch.zeros(1, FEATURES, dtype=torch.float64, requires_grad=True)
        make("cosine", squash=squash)(zero).sum().backward()
        assert zero.grad is not None
        assert zero.grad.isfinite().all()


@pytest.mark.parametrize("groups", [1, 2])
def test_normalised_is_the_golden_classifier_in_its_three_views(groups: int) -> None:
    golden = GOLDEN["other"]["comic_normalised_classifier"]
    head = make("normalised", groups=groups)
    head.weight.data = torch.tensor(golden["weight"], dtype=torch.float64)
    x, moving = (torch.tensor(golden[key], dtype=torch.float64) for key in ("x", "embed"))
    expected = golden["out(float32)"][f"num_head={groups}"]
    for view, along in (("balanced", 0.0), ("head", -1.0), ("tail", float(golden["alpha"]))):
        torch.testing.assert_close(
            head(x, moving, along), torch.tensor(expected[view]["moving"]).double(), rtol=0, atol=5e-6
        )
        torch.testing.assert_close(head(x), torch.tensor(expected[view]["logits"]).double(), rtol=0, atol=5e-6)


def test_normalised_without_a_moving_vector_yet_is_the_plain_one() -> None:
    head: Normalised = make("normalised")
    assert torch.equal(head(some(), torch.zeros(FEATURES, dtype=torch.float64), 2.0), head(some()))


def test_label_graph_has_the_golden_adjacency() -> None:
    golden = GOLDEN["other"]["ml_gcn"]
    expected = torch.tensor(golden["A_hat=(A D)^T D"])
    assert golden["nums"] == STATISTICS.positives.tolist()
    torch.testing.assert_close(adjacency(STATISTICS, golden["t"], 0.25), expected, rtol=0, atol=1e-6)
    sparse = LabelStatistics(STATISTICS.positives, STATISTICS.negatives, 100, PAIRS.to_sparse())
    torch.testing.assert_close(adjacency(sparse, golden["t"], 0.25), expected, rtol=0, atol=1e-6)


def test_label_graph_passes_messages_twice() -> None:
    head: LabelGraph = make("label_graph", hidden=6, size=5)
    a, x = head.adjacency.double(), head.vectors
    hidden = nn.functional.leaky_relu(a @ (x @ head.first.weight.T), 0.2)
    classifiers = a @ (hidden @ head.second.weight.T)
    torch.testing.assert_close(head(some()), some() @ classifiers.T)
    assert dict(head.named_parameters()).keys() == {"vectors", "first.weight", "second.weight"}


def test_a_label_that_never_occurs_is_alone_in_the_graph() -> None:
    pairs = torch.tensor([[5, 5, 0], [5, 5, 0], [0, 0, 0]])
    alone = adjacency(LabelStatistics(torch.tensor([5, 5, 0]), torch.zeros(3).long(), 9, pairs), 0.0, 0.25)
    assert alone.isfinite().all()
    assert alone[2].tolist() == [0.0, 0.0, 1.0]
    assert alone[:, 2].tolist() == [0.0, 0.0, 1.0]


def test_label_vectors_come_from_a_file_and_do_not_learn(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float64).reshape(LABELS, 2)
    np.save(tmp_path / "words.npy", values)
    head = make("label_graph", vectors=str(tmp_path / "words.npy"))
    assert head.vectors.tolist() == values.tolist()
    assert "vectors" not in dict(head.named_parameters())
    assert "vectors" in head.state_dict()
    np.save(tmp_path / "few.npy", values[:2])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no numbers")
    for file, says in (("few", "expected one vector for each of the 3 labels"), ("none", "does not exist")):
        with pytest.raises(UserError, match=says):
            make("label_graph", vectors=str(tmp_path / f"{file}.npy"))
    for file in ("objects", "text"):
        with pytest.raises(UserError, match="is not a"):
            make("label_graph", vectors=str(tmp_path / f"{file}.npy"))


def test_label_graph_says_when_nobody_counted_pairs() -> None:
    counts = LabelStatistics.of_counts([1, 2, 3], 9)
    with pytest.raises(UserError, match="which labels occur together"):
        build("models.heads", "label_graph", {}, features=4, labels=3, statistics=counts)


def test_scales_have_the_golden_gradient() -> None:
    expected = torch.tensor(GOLDEN["losses"]["lws_bce_mean"]["grad_scales"], dtype=torch.float64)
    torch.testing.assert_close(learned_scales(GOLDEN)[1], expected, rtol=0, atol=1e-7)


def test_scales_start_at_one() -> None:
    head = make("scaled")
    assert torch.equal(head(some()), head.classify(some()))


def test_the_neck_normalises_drops_and_is_narrow() -> None:
    head = make("neck_linear", width=7)
    assert head.classify.weight.shape == (LABELS, 7)
    assert not head.classify.bias.any()
    narrow, normal, drop = head.neck
    assert drop.p == 0.5
    head(some())  # moves the running moments
    x = narrow(some())
    x = (x - normal.running_mean) / torch.sqrt(normal.running_var + normal.eps)
    torch.testing.assert_close(head.eval()(some()), x @ head.classify.weight.T)


def recalled(head: Memory, v: list[float], scale: float = 16.0) -> list[float]:
    """The meta-embedding in plain Python."""

    def linear(layer: nn.Linear) -> list[float]:
        return [dot(w, v) + b for w, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]

    centroids = head.centroids.tolist()
    powers = [2.718281828459045**z for z in linear(head.classify)]
    memory = [sum(p * m[d] for p, m in zip(powers, centroids, strict=True)) / sum(powers) for d in range(len(v))]
    nearest = min(sqrt(sum((x - y) ** 2 for x, y in zip(v, m, strict=True))) for m in centroids)
    deep = [10 / nearest * (x + tanh(e) * m) for x, e, m in zip(v, linear(head.select), memory, strict=True)]
    length = sqrt(dot(deep, deep))
    return [scale * dot(deep, w) / (1 + length) / sqrt(dot(w, w)) for w in head.cosine.weight.tolist()]


def test_memory_is_a_linear_classifier_until_it_is_filled() -> None:
    head: Memory = make("memory")
    assert torch.equal(head(some())[0], head.classify(some()))
    centroids = torch.randn(LABELS, FEATURES, dtype=torch.float64)
    head.remember(centroids)
    logits, distances = head(some())
    for v, z, d in zip(some().tolist(), logits.tolist(), distances.tolist(), strict=True):
        assert z == pytest.approx(recalled(head, v))
        far = [sum((x - y) ** 2 for x, y in zip(v, m, strict=True)) for m in centroids.tolist()]
        assert d == pytest.approx(far)


def test_memory_survives_an_item_that_sits_on_a_centroid() -> None:
    for filled in (False, True):
        head = make("memory")
        if filled:
            head.remember(some(LABELS))
        features = (some(LABELS) if filled else torch.zeros(2, FEATURES).double()).requires_grad_()
        logits, distances = head(features)
        (logits.sum() + distances.sum()).backward()
        assert logits.isfinite().all()
        gradients = [features.grad, *(parameter.grad for parameter in head.parameters())]
        assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cosine", {"scale": 0.0}),
        ("normalised", {"groups": 3}),
        ("normalised", {"groups": 0}),
        ("normalised", {"scale": -1.0}),
        ("label_graph", {"threshold": 2.0}),
        ("neck_linear", {"dropout": 1.0}),
    ],
)
def test_refuses(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        make(name, **options)
