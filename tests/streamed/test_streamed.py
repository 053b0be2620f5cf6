"""A head that never holds all logits gives the numbers of one that does."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import linear

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.targets import LabelStatistics
from raretag.labels.store import LabelStore
from raretag.streamed.head import StreamedHead
from raretag.streamed.targets import ListedTargets, listed_targets
from support.batches import ALL, fit, label
from support.cases import CASES

ITEMS, LABELS, FEATURES, ROWS = 12, 13, 6, 5
EXCLUDED = {
    "role",
    "oltr",
}  # a number for each item and label; a head with a memory
OTHERS = [
    ("dynamic_pseudo_labels", {"draw": "labels", "q": 0.3}),
    ("dynamic_pseudo_labels", {"draw": "labels", "q": 0.3, "reading": "paper", "precision": "uint8"}),
    ("dynamic_pseudo_labels", {"precision": "uint8", "anchor": "prior"}),
    ("dynamic_pseudo_labels", {"anchor": "align"}),
    ("partial_label_masking", {"rate": 1.0, "bins": 3, "count_unknown": True}),
    ("partial_label_masking", {"rate": 1.0, "base": "distribution_balanced"}),
    ("reflective_correction", {"warm_up": 0.0, "tau": 0.3, "cap": None, "scale": "positives", "mean_of": "batch"}),
    ("reflective_correction", {"warm_up": 0.0, "tau": 0.3, "cap": 5.0, "base": "class_balanced"}),
    ("comic", {"warm_up": 0.0, "tau": 0.3, "cap": None, "reduce": "kept"}),
    ("ldam", {"form": "softmax", "unknown": "ignore", "reduce": "kept"}),
    ("combined", {"complete": {"name": "dynamic_pseudo_labels", "draw": "labels"}, "keep": "partial_asymmetric"}),
    ("expected_positive", {"expected": 2.0}),
]
SETTINGS = [(case.name, options) for case, options in ALL if case.name not in EXCLUDED] + OTHERS


def data(seed: int, shares: tuple[float, float]) -> LabelStore:
    """Positives and observed negatives in these shares, the rest unknown; fully observed if they add up to 1."""
    draw = torch.rand(ITEMS, LABELS, generator=torch.Generator().manual_seed(seed))
    values = torch.where(draw < shares[0], 1.0, torch.where(draw < sum(shares), 0.0, torch.nan))
    return LabelStore.from_dense(values)


STORES = {"mostly unknown": data(0, (0.2, 0.1)), "mostly known": data(1, (0.3, 0.6)), "all known": data(2, (0.3, 0.7))}
every_setting = pytest.mark.parametrize(("name", "options"), SETTINGS, ids=label)
every_store = pytest.mark.parametrize("store", STORES.values(), ids=STORES)


def make(name: str, options: dict, statistics: LabelStatistics) -> Method:
    longer = {key: value * LABELS if isinstance(value, list) else value for key, value in options.items()}
    return build_method(name, statistics, items=ITEMS, **fit(longer, LABELS))


def plain(method: Method, head: StreamedHead, x: Tensor, store: LabelStore, rows: Tensor, context: Context) -> Tensor:
    if x.dim() == 2:
        logits = linear(x, head.weights[0], head.biases[0])
    else:
        logits = torch.stack([linear(x[:, k], head.weights[k], head.biases[k]) for k in range(x.shape[1])], 1)
    return method.loss(logits, store.targets(rows), context)


def gradients(loss: Tensor, x: Tensor, head: StreamedHead) -> list[Tensor]:
    found = torch.autograd.grad(loss, [x, *head.parameters()])
    return [one.to_dense() if one.is_sparse else one for one in found]


def compare(
    method: Method, store: LabelStore, branches: int = 1, entries: int = 4 * ROWS, sparse: bool = False
) -> None:
    """Three steps over two epochs: losses, gradients and what the method has learned."""
    generator = torch.Generator().manual_seed(3)
    head = StreamedHead(FEATURES, LABELS, branches=branches, entries_at_once=entries, sparse=sparse).double()
    other = copy.deepcopy(method)
    for step, epoch in enumerate((0, 0, 8)):
        shape = (ROWS, FEATURES) if branches == 1 else (ROWS, branches, FEATURES)
        x = (3.0 * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_()
        rows = torch.randperm(ITEMS, generator=generator)[:ROWS]
        context = Context(index=rows, epoch=epoch, epochs=10)
        expected = plain(method, head, x, store, rows, context)
        found = head.loss(other, x, listed_targets(store, rows), context)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
        for mine, theirs in zip(gradients(2.0 * found, x, head), gradients(2.0 * expected, x, head), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)  # the plain path is fused
        if step > 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # pseudo-labels of a random model drift
                method.end_epoch(context)
                other.end_epoch(context)
        for key, value in method.state_dict().items():
            torch.testing.assert_close(other.state_dict()[key], value, rtol=1e-9, atol=1e-12, msg=key)


@every_store
@every_setting
def test_streamed_numbers_are_the_plain_numbers(name: str, options: dict, store: LabelStore) -> None:
    compare(make(name, options, store.statistics()), store)


@pytest.mark.parametrize("entries", [1, 7 * ROWS, 100 * ROWS])
@pytest.mark.parametrize(("name", "options"), [("binary_cross_entropy", {"unknown": "negative"}), *OTHERS], ids=label)
def test_the_size_of_a_block_does_not_matter(name: str, options: dict, entries: int) -> None:
    store = STORES["mostly unknown"]
    compare(make(name, options, store.statistics()), store, entries=entries)


@pytest.mark.parametrize(
    "options", [{}, {"warm_up": 0.0, "tau": 0.3}, {"reduce": "kept"}, {"product": "logits"}], ids=str
)
def test_comic_has_three_streamed_heads(options: dict) -> None:
    store = STORES["mostly unknown"]
    compare(make("comic", options, store.statistics()), store, branches=3)


@pytest.mark.parametrize("name", ["binary_cross_entropy", "focal", "inverse_frequency", "dynamic_pseudo_labels"])
def test_gradients_of_few_labels_may_be_sparse_rows(name: str) -> None:
    store = STORES["mostly unknown"]
    options = {"draw": "labels", "q": 0.2} if name == "dynamic_pseudo_labels" else {"unknown": "ignore"}
    compare(make(name, options, store.statistics()), store, sparse=True)


def test_only_picked_and_observed_labels_have_gradient_rows() -> None:
    store = STORES["mostly unknown"]
    method = make("dynamic_pseudo_labels", {"draw": "labels", "q": 0.2}, store.statistics())
    head = StreamedHead(FEATURES, LABELS, sparse=True)
    rows = torch.tensor([1, 4])
    context = Context(index=rows, epoch=2, epochs=10)
    picked = method.objective.complete.multiplied(LABELS, context).tolist()
    observed = store.targets(rows).observed.any(0).nonzero().flatten().tolist()
    head.loss(method, torch.randn(2, FEATURES), listed_targets(store, rows), context).backward()
    touched = head.weights[0].grad.coalesce().indices()[0].tolist()
    assert touched == sorted({*picked, *observed})
    assert len(touched) < LABELS


def test_the_sampled_sum_is_right_on_average() -> None:
    """Of labels that are all unknown, the mean over picked ones is on average the mean over all."""
    store = LabelStore.from_lists([[]] * 400, labels=LABELS, negatives=[[]] * 400)
    options = {"draw": "labels", "initial": 0.3, "penalty": False, "schedule": "one"}
    statistics = store.statistics()
    x = torch.randn(1, FEATURES, dtype=torch.float64)
    head = StreamedHead(FEATURES, LABELS).double()

    def loss(q: float, item: int) -> float:
        method = build_method("dynamic_pseudo_labels", statistics, items=400, q=q, **options)
        rows = torch.tensor([item])
        return float(head.loss(method, x, listed_targets(store, rows), Context(index=rows)).detach())

    sampled = torch.tensor([loss(0.5, item) for item in range(400)])
    error = sampled.std() / 20.0
    assert abs(float(sampled.mean()) - loss(1.0, 0)) < 4.0 * float(error)
    assert float(error) > 0


@settings(deadline=None, max_examples=30)
@given(labels=st.integers(1, 30), k=st.integers(1, 30), entries=st.integers(1, 60), seed=st.integers(0, 99))
def test_top_k_is_that_of_all_logits(labels: int, k: int, entries: int, seed: int) -> None:
    torch.manual_seed(seed)
    k = min(k, labels)
    head = StreamedHead(FEATURES, labels, entries_at_once=entries)
    x = torch.randn(3, FEATURES)
    expected, _ = head(x).topk(k, dim=1)
    scores, found = head.top_k(x, k)
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(head(x).gather(1, found), scores, rtol=1e-5, atol=1e-6)
    assert all(len(set(row)) == k for row in found.tolist())


@every_store
def test_lists_hold_what_the_store_holds(store: LabelStore) -> None:
    rows = torch.tensor([3, 0, 7])
    lists, dense = listed_targets(store, rows), store.targets(rows)
    like = torch.zeros(0)
    for numbers in (slice(0, LABELS), slice(2, 9), torch.tensor([0, 3, 4, 12])):
        some = lists.columns(numbers, like)
        assert torch.equal(some.observed, dense.observed[:, numbers])
        assert torch.equal(some.positive, dense.positive[:, numbers])


def test_pairs_may_come_in_any_order() -> None:
    pairs = torch.tensor([1, 0, 1]), torch.tensor([4, 2, 0])
    some = ListedTargets.of_pairs((2, 5), pairs, absent="negative").columns(slice(0, 5), torch.zeros(0))
    assert some.value.tolist() == [[0, 0, 1, 0, 0], [1, 0, 0, 0, 1]]
    assert some.observed.all()


def test_mistakes_are_told_in_one_line() -> None:
    store = STORES["mostly known"]
    head, rows = StreamedHead(FEATURES, LABELS), torch.arange(3)
    method = make("binary_cross_entropy", {}, store.statistics())
    with pytest.raises(UserError, match="lies outside of 2 rows x 5 labels"):
        ListedTargets.of_pairs((2, 5), (torch.tensor([1]), torch.tensor([5])))
    with pytest.raises(UserError, match="expected \\[items, 6\\]"):
        head.loss(method, torch.zeros(3, 5), listed_targets(store, rows))
    with pytest.raises(UserError, match="3 x 13, but there are 2 items"):
        head.loss(method, torch.zeros(2, FEATURES), listed_targets(store, rows))
    with pytest.raises(UserError, match="Role learns a number for each item and label"):
        head.loss(make("role", {}, store.statistics()), torch.zeros(3, FEATURES), listed_targets(store, rows))
    with pytest.raises(UserError, match="k is 14"):
        head.top_k(torch.zeros(1, FEATURES), 14)


def test_every_other_method_is_compared() -> None:
    assert {name for name, _ in SETTINGS} == set(CASES) - EXCLUDED
