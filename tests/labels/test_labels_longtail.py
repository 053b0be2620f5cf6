"""Long tails: published counts, curves and groups."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import torch

from raretag.core.errors import UserError
from raretag.labels.counts import groups
from raretag.labels.longtail import exponential, exponential_counts, pareto, pareto_reference
from raretag.labels.store import LabelStore
from support.paths import DATA

VOC_MLT = [6, 34, 8, 14, 154, 17, 249, 29, 479, 4, 240, 48, 11, 20, 775, 100, 5, 82, 7, 64]

CIFAR_LT = {  # (labels, ratio): total, first five, last three
    (10, 200): (11203, [5000, 2775, 1540, 854, 474], [81, 45, 25]),
    (10, 100): (12406, [5000, 2997, 1796, 1077, 645], [139, 83, 50]),
    (10, 50): (13996, [5000, 3237, 2096, 1357, 878], [238, 154, 100]),
    (10, 20): (17023, [5000, 3584, 2569, 1842, 1320], [486, 348, 250]),
    (10, 10): (20431, [5000, 3871, 2997, 2320, 1796], [834, 645, 500]),
    (100, 200): (9502, [500, 473, 449, 425, 403], [2, 2, 2]),
    (100, 100): (10847, [500, 477, 455, 434, 415], [5, 5, 5]),
    (100, 50): (12608, [500, 480, 462, 444, 426], [10, 10, 10]),
    (100, 20): (15907, [500, 485, 470, 456, 442], [26, 25, 25]),
    (100, 10): (19573, [500, 488, 477, 466, 455], [52, 51, 50]),
}

# fmt: off
PARETO = {  # (labels, largest, power)
    (20, 800, 6): [800, 529, 359, 248, 175, 125, 91, 67, 50, 38, 29, 23, 18, 14, 11, 9, 7, 6, 5, 4],
    (80, 1200, 6): [
        1200, 1084, 981, 888, 806, 732, 666, 607, 553, 505, 462, 423, 387, 355, 326, 300, 276, 254, 234, 216, 200, 185,
        171, 158, 147, 136, 126, 117, 109, 102, 95, 88, 82, 77, 72, 67, 63, 59, 55, 52, 48, 45, 43, 40, 38, 35, 33, 31,
        30, 28, 26, 25, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 14, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8, 8, 7, 7, 7,
        6, 6],
    (20, 1400, 12): [
        1400, 1020, 749, 554, 413, 310, 234, 178, 136, 104, 81, 63, 49, 38, 30, 24, 19, 15, 12, 10],
    (80, 1400, 10): [
        1400, 1290, 1191, 1099, 1015, 938, 868, 803, 743, 689, 638, 592, 549, 510, 473, 440, 409, 380, 354, 329, 307,
        286, 267, 249, 232, 217, 202, 189, 177, 165, 155, 145, 135, 127, 119, 111, 105, 98, 92, 86, 81, 76, 72, 67, 63,
        60, 56, 53, 50, 47, 44, 42, 39, 37, 35, 33, 31, 30, 28, 26, 25, 24, 22, 21, 20, 19, 18, 17, 16, 15, 15, 14, 13,
        13, 12, 11, 11, 10, 10, 9],
}
# fmt: on


@pytest.mark.parametrize("case", CIFAR_LT)
def test_the_counts_of_long_tailed_cifar(case: tuple[int, int]) -> None:
    labels, ratio = case
    counts = exponential_counts(50_000 // labels, labels, ratio)
    assert len(counts) == labels
    assert (sum(counts), counts[:5], counts[-3:]) == CIFAR_LT[case]


@pytest.mark.parametrize("case", PARETO)
def test_the_reference_curves_of_voc_and_coco(case: tuple[int, int, int]) -> None:
    labels, largest, power = case
    assert pareto_reference(labels, largest, power) == PARETO[case]


def test_the_curve_ends_near_its_smallest_value() -> None:
    assert pareto_reference(20, 800, 6, smallest=30)[-1] == int(770 * 100 ** (-7 / 6) + 30)


def single_label(items: int = 600, labels: int = 6) -> LabelStore:
    return LabelStore.from_lists([[i % labels] for i in range(items)], ids=[f"item {i}" for i in range(items)])


def test_an_exponential_subset_has_the_counts_of_the_curve() -> None:
    store = single_label()
    rows = exponential(store, ratio=20, seed=3)
    assert (np.diff(rows) > 0).all()
    assert store.take(rows).statistics().positives.tolist() == exponential_counts(100, 6, 20)
    fewer = exponential(store, ratio=20, seed=3, largest=50)
    assert store.take(fewer).statistics().positives.tolist() == exponential_counts(50, 6, 20)
    assert set(fewer) < set(rows)  # one order of the items of a label serves all sizes


def test_subsets_depend_on_the_seed_and_not_on_the_order_of_items() -> None:
    store = single_label()
    order = np.random.default_rng(0).permutation(len(store))
    for build in (lambda s, seed: exponential(s, 20, seed), lambda s, seed: pareto(s, 60, 6, seed)):
        chosen = set(store.take(build(store, 3)).ids)
        shuffled = store.take(order)
        assert chosen == set(shuffled.take(build(shuffled, 3)).ids)
        assert chosen != set(store.take(build(store, 4)).ids)


def test_exponential_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="row 1 has 2 positive labels"):
        exponential(LabelStore.from_lists([[0], [0, 1]]), 10)
    with pytest.raises(UserError, match="label '1' has 1 items and needs 5"):
        exponential(LabelStore.from_lists([[0]] * 5 + [[1]]), 1)
    with pytest.raises(UserError, match=r"ratio is 0\.5"):
        exponential_counts(100, 10, 0.5)


def test_a_pareto_subset_of_single_labels_is_on_the_curve_from_head_to_tail() -> None:
    """Without labels that come together nothing is undone. All p are 1/C, so label order is the order of the curve."""
    store = single_label()
    counts = store.take(pareto(store, largest=80, power=6)).statistics().positives
    assert counts.tolist() == pareto_reference(6, 80, 6)


def test_a_pareto_subset_walks_from_head_to_tail() -> None:
    """The last label visited is exact; earlier ones are changed only through items that carry later labels too."""
    random = np.random.default_rng(1)
    table = random.random((2000, 8)) < np.array([0.7, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1])
    store = LabelStore.from_dense(table)
    together = table.T.astype(float) @ table
    head_to_tail = np.argsort(-(together / table.sum(axis=0)).sum(axis=1), kind="stable")  # (1): sum_j n_ij / n_j
    rows = pareto(store, largest=300, power=6, seed=5)
    counts = table[rows].sum(axis=0)
    wanted = pareto_reference(8, 300, 6)
    assert counts[head_to_tail[-1]] == wanted[-1]
    assert table[rows].any(axis=1).all()
    assert np.array_equal(rows, pareto(store, largest=300, power=6, seed=5))


def test_coco_thinned_by_the_papers_numbers_looks_like_coco_mlt() -> None:
    """COCO-MLT has 1,909 items, 1,128 of the commonest label, 6 of the rarest, and 22/33/25 labels in the groups."""
    path = DATA / "coco" / "coco_train_full.txt.gz"
    if not path.exists():
        pytest.skip(f"needs the COCO label list {path}")
    with gzip.open(path, "rt") as file:
        store = LabelStore.from_lists([[int(i) for i in line.partition(",")[2].split()] for line in file])
    rows = pareto(store, largest=1200, power=6)
    counts = store.take(rows).statistics().positives
    assert 1800 < len(rows) < 2000
    assert 1050 < counts.max() < 1200
    assert counts.min() in (5, 6, 7)
    for found, published in zip(map(len, groups(counts).values()), (22, 33, 25), strict=True):
        assert abs(found - published) <= 3


def test_groups_of_voc_by_its_counts() -> None:
    found = groups(torch.tensor(VOC_MLT))
    assert [len(found[name]) for name in ("head", "medium", "tail")] == [6, 6, 8]
    assert 15 in found["head"]  # potted plant has exactly 100
    assert 13 in found["medium"]  # motorbike has exactly 20
    assert sorted(torch.cat(list(found.values())).tolist()) == list(range(20))


def test_group_edges_are_options() -> None:
    found = groups(torch.tensor([1, 2, 3, 4]), edges=(2, 4))
    assert {name: labels.tolist() for name, labels in found.items()} == {"head": [3], "medium": [1, 2], "tail": [0]}
    with pytest.raises(UserError, match="the lower one first"):
        groups(torch.tensor([1]), edges=(100, 20))


@pytest.mark.parametrize(
    ("file", "labels", "sizes"),
    [("VOCdevkit/voc_mlt_train.json", 20, (6, 6, 8)), ("coco/coco_mlt_train.json", 80, (22, 33, 25))],
)
def test_groups_of_the_published_data_sets(file: str, labels: int, sizes: tuple[int, int, int]) -> None:
    path = DATA / file
    if not path.exists():
        pytest.skip(f"needs the label list {path}")
    published = json.loads(path.read_text())
    store = LabelStore.from_lists(published["labels"], ids=published["image_ids"], labels=labels)
    found = groups(store.statistics().positives)
    assert tuple(map(len, found.values())) == sizes
    for ours, theirs in (("head", "head"), ("medium", "middle"), ("tail", "tail")):
        assert found[ours].tolist() == sorted(published["groups"][theirs])
    if labels == 20:
        assert store.statistics().positives.tolist() == VOC_MLT
