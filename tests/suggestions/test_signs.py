"""Signs that tags are missing, and the order of questions that teaches rare labels soonest."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from raretag.cli.main import app
from raretag.labels.store import LabelStore
from raretag.metrics.empty_items import EmptyItems, Ratio
from raretag.suggestions.selection import list_suggestions
from raretag.suggestions.signs import signs_in_labels, signs_in_scores
from raretag.suggestions.teaching import teaching_order


def tagged(share, items=4000, seed=0):
    """Every item has 1 + Poisson(1) of 30 labels, of which each is marked with probability `share`."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(items):
        true = generator.choice(30, min(1 + generator.poisson(1.0), 30), replace=False)
        rows.append([f"l{label}" for label in true if generator.random() < share])
    return LabelStore.from_lists(rows, names=[f"l{n}" for n in range(30)])


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
def test_items_without_a_tag_tell_how_many_are_marked(share):
    counts = np.array([len(row) for row in tagged(share).name_lists()])
    assert EmptyItems.of(counts).marked_share() == pytest.approx(share, abs=0.05)


def test_complete_tags_show_no_sign_and_missing_ones_are_said_with_the_command():
    assert signs_in_labels(tagged(1.0)) == []
    said = signs_in_labels(tagged(0.6))[0]
    assert "of the items have no tag at all" in said
    assert "data.absent=unknown" in said
    assert signs_in_labels(tagged(0.6), absent="unknown") == []
    assert EmptyItems(100, 0.9, 2.0, 40.0).marked_share() is None  # more empty items than any share explains


def test_unmarked_items_that_score_like_marked_ones_are_a_sign():
    generator = np.random.default_rng(0)
    z = generator.normal(size=(3000, 6)) * 4 - 3
    truth = generator.random(z.shape) < 1 / (1 + np.exp(-3 * z))
    some = LabelStore.from_dense((truth & (generator.random(truth.shape) < 0.6)).astype(float))
    said = signs_in_scores(z, some)[0]
    low, high = (int(word.rstrip("%.")) for word in said.split("between ")[1].split()[:3:2])
    assert low <= 60 <= high
    assert signs_in_scores(z, LabelStore.from_dense(truth.astype(float))) == []


@pytest.mark.parametrize("knows", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_that_knows_little_is_no_sign_that_complete_tags_are_missing(knows, seed):
    generator = np.random.default_rng(seed)
    truth = np.eye(8)[generator.integers(0, 8, 2000)] + (generator.random((2000, 8)) < 0.1) > 0
    z = generator.normal(size=truth.shape) + knows * truth
    assert signs_in_scores(z, LabelStore.from_dense(truth.astype(float))) == []


def test_rare_labels_come_first_and_share_their_turns():
    p = np.array([0.9, 0.9, 0.9, 0.5, 0.5])
    label = np.array([0, 0, 0, 1, 2])
    assert teaching_order(p, label, np.array([50, 1, 1])).tolist() == [3, 4, 0, 1, 2]
    # an improbable question about a rare label does not push aside a probable one about a label that is nearly as rare
    assert teaching_order(np.array([0.01, 0.9]), np.array([0, 1]), np.array([1, 5])).tolist() == [1, 0]


def test_the_second_photo_of_a_burst_comes_later():
    p, label = np.array([0.9, 0.89, 0.5]), np.zeros(3, np.int64)
    burst = np.array([[1.0, 0.0], [1.0, 0.001], [0.0, 1.0]])
    assert teaching_order(p, label, np.array([3]), burst).tolist() == [0, 2, 1]
    assert teaching_order(p, label, np.array([3])).tolist() == [0, 1, 2]


def test_a_list_that_teaches_asks_about_rare_labels_and_keeps_its_promise():
    generator = np.random.default_rng(1)
    z = generator.normal(size=(2000, 8)) * 3 - np.linspace(1, 7, 8)
    truth = generator.random(z.shape) < 1 / (1 + np.exp(-2 * z))
    store = LabelStore.from_dense((truth & (generator.random(truth.shape) < 0.5)).astype(float))
    rare = store.names[-1]
    taught = list_suggestions(z, store, {}, most=100, wrong=0, teach=True)
    plain = list_suggestions(z, store, {}, most=100, wrong=0, quota=0.0)
    assert sum(one.label == rare for one in taught) > 2 * sum(one.label == rare for one in plain)
    assert sorted(one.turn for one in taught) == list(range(1, 101))
    right = np.mean([truth[int(one.item), store.names.index(one.label)] for one in taught])
    assert taught.promises[-1].covers(right)


@pytest.mark.parametrize(("column", "said"), [("tags", True), ("zeros and ones", False)])
def test_inspect_says_of_a_list_of_tags_that_nobody_has_checked_what_it_leaves_out(tmp_path, column, said):
    """In a table of 0 and 1 somebody wrote every 0."""
    rows = {"tags": ["x,tags"], "zeros and ones": ["x,sun,rain"]}[column]
    for number in range(40):
        sun, rain = number % 2, number % 4 == 1
        tags = ";".join(name for name, there in (("sun", sun), ("rain", rain)) if there)
        rows.append(f"{number}.5,{tags}" if column == "tags" else f"{number}.5,{sun},{int(rain)}")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "t.csv")], env={"COLUMNS": "200"}).output
    assert ("negative: labels that an item does not list are assumed to be absent" in shown) is said
    assert ("missing tags?" in shown) is said


def test_items_without_a_mark_weigh_what_the_scores_leave_open():
    c = np.linspace(0.1, 0.95, 18)
    open_ = np.full(len(c), 1 / len(c))
    counts = np.array([len(row) for row in tagged(0.6).name_lists()])
    found = EmptyItems.of(counts).weighed(open_, c)
    assert found.sum() == pytest.approx(1)
    assert c[found.argmax()] == pytest.approx(0.6)
    assert found[c < 0.3].sum() < 0.01  # there cannot be fewer empty items than so few marks would leave
    assert found[c > 0.7].sum() > 0.05  # items that truly have no label may be among them
    empty = EmptyItems.of(counts, Ratio(1.0, 0.1, 0.2))  # they score as items with a label do
    assert empty.weighed(open_, c)[c > 0.7].sum() < found[c > 0.7].sum()
    none_left_out = np.maximum(counts, 1)  # only tagged items were collected: nothing is learnt of c
    assert np.array_equal(EmptyItems.of(none_left_out).weighed(open_, c), open_)


def test_scores_tell_whether_empty_items_have_a_label():
    generator = np.random.default_rng(0)
    truth = np.arange(10) == generator.integers(0, 16, size=4000)[:, None]  # six of sixteen items have no label
    z = generator.normal(size=truth.shape) + 5 * truth - 3
    marked = truth & (generator.random(truth.shape) < 0.6)
    empty = ~marked.any(axis=1)
    some = Ratio.of(z, marked)
    have = (some.value - some.of_none) / (1 - some.of_none)
    assert have == pytest.approx(truth[empty].any(axis=1).mean(), abs=0.1)
    tagged_only = truth.any(axis=1)
    assert Ratio.of(z[tagged_only], marked[tagged_only]).value > 0.9
    assert Ratio.of(z * 0, marked).of_none == pytest.approx(1)  # a model that tells nothing


def test_items_without_a_label_leave_the_share_higher_where_the_scores_show_them():
    counts = np.array([len(row) for row in tagged(0.6, items=20_000).name_lists()])
    with_others = np.concatenate([counts, np.zeros(10_000, np.int64)])
    c = np.linspace(0.1, 0.95, 18)
    open_ = np.full(len(c), 1 / len(c))
    have = (counts == 0).sum() / (with_others == 0).sum()
    assert c @ EmptyItems.of(with_others, Ratio(have, 0.02, 0.0)).weighed(open_, c) == pytest.approx(0.6, abs=0.1)
    assert c @ EmptyItems.of(with_others).weighed(open_, c) < 0.3
