"""Scores from outside: read, put on the scale of logits, and used where they help and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

import raretag
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.core.objective import BelievedBefore
from raretag.core.targets import Targets
from raretag.data.prior import Prior
from raretag.metrics.decision_cuts import MARKED
from raretag.metrics.outside import Outside, weighed
from raretag.metrics.precision_curve import average_precision
from raretag.objective.completions import UnknownIsNegative

QUIET = Listener()


def made(items: int = 400, labels: int = 8, seed: int = 0):
    """Features, labels, and how likely each label really was."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 12)).astype(np.float32)
    score = x @ rng.normal(size=(12, labels)) + 4 * rng.normal(size=(items, labels))
    return x, (score > np.quantile(score, 0.85, axis=0)).astype(np.float32), rng


def oracle(y, noise, rng):
    return torch.from_numpy(y + noise * rng.normal(size=y.shape)).float()


def mean_ap(logits, y):
    return float(average_precision(logits, Targets.from_dense(torch.from_numpy(y))).mean())


# The file -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_found_by_ids_and_names_whatever_its_order(tmp_path: Path, ending: str) -> None:
    columns = {"score": [0.0, 0.25, 7.0], "label": ["dog", "cat", "fish"], "item": ["b", "a", "a"]}
    path = tmp_path / f"scores.{ending}"
    if ending == "csv":
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path.write_text("\n".join(lines))
    else:
        pyarrow.parquet.write_table(pa.table(columns), path)
    found = Prior.read(path).scores(["a", "x", "b"], ["cat", "dog"])
    nan = float("nan")
    expected = torch.tensor([[0.25, nan], [nan, nan], [nan, 0.0]])  # a score of 0 is a score
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,tag,score\na,cat,1\n", "no 'label' among them"),
        ("item,label,score\na,cat,much\n", "a score is not a number"),
        ("item,label,score\na,cat,\n", "a score is not a number"),
        ("item,label,score\na,cat,nan\n", "leave out rows without a score"),
        ("item,label,score\na,cat,1\na,dog,2\na,cat,3\n", "line 4: item 'a' has a second score for 'cat'"),
        ("item,label,score\nq,cat,1\n", "no score of a training item: its items are such as 'q'"),
        ("item,label,score\n3,cow,1\n", "no score of a training label: its labels are such as 'cow'"),
    ],
)
def test_mistakes_in_a_file_are_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    data = raretag.data.from_arrays(np.eye(10), [["cat"], ["dog"]] * 5, ids=[str(i) for i in range(10)])
    with pytest.raises(UserError, match=message) as caught:
        raretag.train(data, prior=path, listener=QUIET)
    assert "\n" not in str(caught.value)


def test_an_array_has_a_row_for_each_item_and_the_parts_find_theirs() -> None:
    scores = np.arange(40.0).reshape(20, 2)
    data = raretag.data.from_arrays(np.arange(20.0)[:, None], [["cat"], ["dog"]] * 10, prior=scores)
    for part in data.parts.values():
        rows = part.inputs.batch(torch.arange(len(part)))[:, 0].long()
        assert torch.equal(data.prior.of(part.labels), torch.from_numpy(scores).float()[rows])
    with pytest.raises(UserError, match=r"prior has shape \(3, 2\); expected one score for each of 20 items"):
        raretag.data.from_arrays(np.zeros((20, 1)), [["cat"], ["dog"]] * 10, prior=scores[:3])
    with pytest.raises(UserError, match="found by the ids of items"):
        raretag.train(raretag.data.from_arrays(np.eye(10), [["cat"], ["dog"]] * 5), prior=scores, listener=QUIET)


# What it means --------------------------------------------------------------------------------------------------------


def test_better_scores_bring_more_and_useless_ones_cost_nothing() -> None:
    _, y, rng = made(1500)
    logits = oracle(y, 1.2, rng)
    targets = Targets.from_dense(torch.from_numpy(y))
    gains = []
    for noise in (0.4, 0.8, 1.6, 3.0, 1e6):
        scores, new = oracle(y, noise, rng), oracle(y, noise, rng)
        outside = weighed(Outside.fitted(scores, targets), logits, scores, targets).outside
        fresh = oracle(y, 1.2, rng)
        gains.append(mean_ap(outside.added(fresh, new), y) - mean_ap(fresh, y))
    assert gains[0] > gains[1] > gains[2] > gains[3] > 0
    assert abs(gains[4]) < 0.003


def test_scores_that_say_the_opposite_or_nothing_have_no_slope() -> None:
    _, y, rng = made()
    targets = Targets.from_dense(torch.from_numpy(y))
    assert Outside.fitted(-oracle(y, 0.5, rng), targets).slope.max() < 0.01
    assert not Outside.fitted(torch.ones(y.shape), targets).evidence(torch.ones(y.shape)).any()
    nothing = torch.full(y.shape, torch.nan)
    assert not weighed(Outside.fitted(nothing, targets), oracle(y, 1.0, rng), nothing, targets).outside.counts


def test_probabilities_count_by_their_log_odds_and_gaps_are_no_evidence() -> None:
    _, y, rng = made()
    targets = Targets.from_dense(torch.from_numpy(y))
    scores = torch.sigmoid(4 * oracle(y, 0.5, rng))
    scores[::3] = torch.nan
    outside = Outside.fitted(scores, targets)
    assert outside.odds
    evidence = outside.evidence(scores)
    assert not evidence[::3].any()
    assert evidence[1::3].any()
    again = Outside.from_json(outside.as_json())
    assert torch.equal(again.evidence(scores), evidence)
    assert not again.counts


def test_what_is_believed_of_an_unknown_label() -> None:
    """Of what is not marked, a perfect score finds the share that was left out; a useless one finds next to nothing."""
    _, y, rng = made(4000, 4)
    marked = y * (rng.random(y.shape) < MARKED)
    targets = Targets.from_dense(torch.from_numpy(np.where(marked > 0, 1.0, np.nan)))
    sharp = oracle(y, 0.15, rng)
    believed = Outside.fitted(sharp, targets).posterior(sharp, targets)
    hidden = (y > 0) & (marked == 0)
    assert believed[hidden].mean() > 0.7
    assert believed[y == 0].mean() < 0.05
    blind = oracle(y, 1e6, rng)
    assert Outside.fitted(blind, targets).posterior(blind, targets).max() < 0.2


def test_a_belief_stands_where_nothing_was_observed() -> None:
    targets = Targets.from_dense([[1, float("nan"), float("nan"), 0]])
    beliefs = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.5, 0.25, float("nan"), 0.75]])
    completed = BelievedBefore(beliefs, UnknownIsNegative())(torch.zeros(1, 4), targets, Context(torch.tensor([1])))
    assert completed.value.tolist() == [[1.0, 0.25, 0.0, 0.0]]
    assert completed.counted.all()


# In a run -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["logistic_regression", "assume_negative"])
def test_a_run_uses_good_scores_and_leaves_useless_ones(tmp_path: Path, method: str) -> None:
    x, y, rng = made()
    settings = {"method": method, "listener": QUIET} | ({"epochs": 8} if method == "assume_negative" else {})
    plain = raretag.train(raretag.data.from_arrays(x, y, ids=[str(row) for row in range(len(x))]), **settings)
    good = raretag.train((x, y), prior=oracle(y, 0.5, rng).numpy(), out=tmp_path / "good", **settings)
    blind = raretag.train((x, y), prior=oracle(y, 1e6, rng).numpy(), **settings)
    assert good.metrics.mAP.total > plain.metrics.mAP.total + 0.1
    assert good.record.data.notes["prior"]["share"] != "0"
    assert abs(blind.metrics.mAP.total - plain.metrics.mAP.total) < 0.02

    model = raretag.load(tmp_path / "good")
    with_it = model.predict(x[:50], prior=oracle(y, 0.1, rng).numpy()[:50])
    without = model.predict(x[:50])
    right = y[:50] > 0
    assert with_it.probabilities[right].mean() > without.probabilities[right].mean() + 0.1
    with pytest.raises(UserError, match="prior has 3 rows"):
        model.predict(x[:50], prior=np.zeros((3, 8)))
    with pytest.raises(UserError, match="does not use scores from outside"):
        raretag.load(plain).predict(x[:5], prior=np.zeros((5, 8)))


def test_unknown_labels_are_learned_as_the_scores_believe() -> None:
    x, y, rng = made(600)
    hidden = np.where((y > 0) & (rng.random(y.shape) < 0.3), 1.0, np.nan)
    said: list[str] = []

    class Heard(Listener):
        def message(self, text: str) -> None:
            said.append(text)

    raretag.train((x, hidden), method="assume_negative", prior=oracle(y, 0.3, rng).numpy(), epochs=2, listener=Heard())
    assert any(text == "prior: 100% of the unknown labels are trained towards what the scores say" for text in said)


def test_scores_count_once_at_most_and_only_when_clear_of_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    _, y, rng = made(600)
    targets, logits = Targets.from_dense(torch.from_numpy(y)), torch.from_numpy(rng.normal(size=y.shape)).float()
    good = oracle(y, 0.5, rng)  # beside logits that say nothing more would always be better
    assert weighed(Outside.fitted(good, targets), logits * 50, good, targets).outside.share.max() == 1.0
    far = weighed(Outside.fitted(good, targets), logits * 50, good, targets, most=4.0)
    assert far.outside.share.max() == 4.0
    monkeypatch.setattr("raretag.metrics.outside.CLEAR", 1e9)
    assert weighed(Outside.fitted(good, targets), logits, good, targets).chosen == "0"
