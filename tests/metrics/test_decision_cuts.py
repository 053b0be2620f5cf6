"""Decisions from out-of-fold scores: as the formulas have them, deaf to what is unknown, and used only if they pay."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from raretag.core.targets import Targets
from raretag.metrics import calibration_error
from raretag.metrics.decision_cuts import (
    DEPTHS,
    MARKED,
    MICRO,
    Entries,
    checked_cuts,
    decision_cuts,
    f1_of,
    tune_out_of_fold,
)

SHARES = torch.logspace(math.log10(0.4), math.log10(0.01), 12)


def drawn(items: int = 300, seed: int = 0, signal: float = 1.5) -> tuple[Tensor, Tensor]:
    """Scores that are higher for positives, and the labels [N, C]."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(items, len(SHARES), generator=generator) < SHARES
    return torch.randn(items, len(SHARES), generator=generator) + signal * y, y


def known(y: Tensor) -> Targets:
    return Targets(y.float(), torch.ones_like(y))


def plain_cuts(scores: Tensor, targets: Targets, kappa: float, micro: float) -> list[float]:
    """The formulas, label by label and depth by depth."""
    labels = scores.shape[1]
    ranked, n, e = [], [], []
    for c in range(labels):
        seen = [i for i in range(len(scores)) if targets.observed[i, c]]
        negatives = any(targets.value[i, c] == 0 for i in seen)
        rows = seen if negatives else list(range(len(scores)))
        rows = sorted(rows, key=lambda i: -float(scores[i, c]))
        ranked.append([(float(scores[i, c]), bool(targets.observed[i, c] and targets.value[i, c] > 0)) for i in rows])
        n.append(sum(hit for _, hit in ranked[-1]))
        e.append(1.0 if negatives else MARKED)
    rank = [[min(round(g * n[c]), len(ranked[c]) - 1) for g in DEPTHS] for c in range(labels)]
    hits = [[sum(hit for _, hit in ranked[c][:k]) for k in rank[c]] for c in range(labels)]
    recall = []
    for c in range(labels):
        like = [
            math.exp(-0.5 * ((math.log(max(n[c], 1)) - math.log(max(m, 1))) / 0.7) ** 2) * min(m, 20) * (m > 1)
            for m in n
        ]
        row = []
        for g in range(len(DEPTHS)):
            pooled = sum(w * hits[d][g] / max(n[d], 1) for d, w in enumerate(like)) / max(sum(like), 1e-9)
            row.append((hits[c][g] + kappa * pooled) / (n[c] + kappa))
        recall.append(row)

    def best(c: int, theta: float) -> int:
        worth = [recall[c][g] - theta * e[c] * DEPTHS[g] for g in range(len(DEPTHS))]
        return worth.index(max(worth))

    f = [[2 * recall[c][g] / (1 + e[c] * DEPTHS[g]) for g in range(len(DEPTHS))] for c in range(labels)]
    place = [row.index(max(row)) for row in f]
    for round_ in range(6):
        right = sum(n[c] / e[c] * recall[c][place[c]] for c in range(labels))
        overall = 2 * right / sum(n[c] / e[c] * (1 + e[c] * DEPTHS[place[c]]) for c in range(labels))
        if round_ < 5:
            place = [best(c, overall / 2) for c in range(labels)]
    cuts = []
    for c in range(labels):
        k = rank[c][best(c, (micro * overall + (1 - micro) * max(f[c])) / 2)]
        values = [score for score, _ in ranked[c]]
        between = (values[k - 1] + values[k]) / 2 if k else values[0] + 1e-3 + abs(values[0] - values[1]) / 2
        cuts.append(between if n[c] else math.inf)
    return cuts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("partial", [False, True])
def test_cuts_are_those_of_the_formulas(seed: int, partial: bool) -> None:
    scores, y = drawn(80, seed)
    y[:, 5] = False
    observed = torch.ones_like(y)
    if partial:
        observed = torch.rand(y.shape, generator=torch.Generator().manual_seed(seed + 50)) > 0.4
        observed[:, 2] &= y[:, 2]  # no observed negative
    targets = Targets(y.float(), observed)
    expected = plain_cuts(scores.double(), targets, 10.0, 0.3)
    found = decision_cuts(scores, Entries.of(targets, scores), kappa=10.0, micro=(0.3,))[0]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_a_label_without_positives_is_never_decided_for() -> None:
    scores, y = drawn()
    y[:, 3] = False
    scores[:, 3] += 5.0
    found = tune_out_of_fold(scores, known(y), {})
    assert not found.decided[:, 3].any()
    assert not (found.tuned.calibrated(scores).sigmoid() > found.tuned.thresholds)[:, 3].any()
    assert ((found.tuned.thresholds >= 0) & (found.tuned.thresholds <= 1)).all()


def test_unknown_entries_do_not_matter() -> None:
    scores, y = drawn()
    hidden = torch.rand(y.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    one = tune_out_of_fold(scores, Targets(y.float(), ~hidden), {})
    other = tune_out_of_fold(torch.where(hidden, 9.0, scores), Targets((y ^ hidden).float(), ~hidden), {})
    assert torch.equal(one.tuned.thresholds, other.tuned.thresholds)
    assert torch.equal(one.tuned.scale, other.tuned.scale)
    assert torch.equal(one.decided[~hidden], other.decided[~hidden])


def test_the_same_twice_and_other_folds_with_another_seed() -> None:
    scores, y = drawn()
    first, again, other = (tune_out_of_fold(scores, known(y), {}, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.tuned.thresholds, again.tuned.thresholds)
    assert torch.equal(first.decided, again.decided)
    assert not torch.equal(first.decided, other.decided)


def test_thresholds_of_probabilities_make_the_same_decisions_as_cuts_of_logits() -> None:
    scores, y = drawn()
    cuts = checked_cuts(scores.double(), Entries.of(known(y), scores)).cuts
    tuned = tune_out_of_fold(scores, known(y), {"all": torch.arange(len(SHARES))}).tuned
    assert torch.equal(tuned.calibrated(scores).sigmoid() > tuned.thresholds, scores.double() > cuts)


@pytest.mark.parametrize("seed", range(3))
def test_tuned_cuts_are_better_on_fresh_items(seed: int) -> None:
    scores, y = drawn(600, seed)
    fresh, truth = drawn(4000, seed + 100)
    found = checked_cuts(scores.double(), Entries.of(known(y), scores), seed)
    reached, plain = (f1_of(fresh > cut, Entries.of(known(truth), fresh)) for cut in (found.cuts, 0.0))
    assert found.micro is not None
    assert reached["micro"] > plain["micro"]
    assert reached["macro"] > plain["macro"]


def test_of_all_shares_of_micro_f1_the_best_sum_is_taken_and_neither_f1_pays_for_it() -> None:
    scores, y = drawn(600)
    found = checked_cuts(scores.double(), Entries.of(known(y), scores))
    plain = found.f1["plain"]
    assert [name for name in found.f1 if name != "plain"] == [f"tuned, {m:g}" for m in MICRO]
    fair = {
        name: f1["micro"] + f1["macro"]
        for name, f1 in found.f1.items()
        if all(f1[kind] >= 0.95 * plain[kind] for kind in plain)
    }
    taken = max(fair, key=lambda name: fair[name])
    assert taken == f"tuned, {found.micro:g}"
    assert f1_of(found.decided, Entries.of(known(y), scores)) == found.f1[taken]


def test_the_plain_cut_stays_where_tuning_does_not_pay() -> None:
    """Scores that are right at 0, whatever a search may find."""
    _, y = drawn()
    scores = torch.where(y, 1.0, -1.0) * (1 + torch.rand(y.shape, generator=torch.Generator().manual_seed(0)))
    found = tune_out_of_fold(scores, known(y), {})
    assert found.tuned.notes["cuts"] == "plain"
    assert torch.equal(found.decided, y)
    shift = torch.sigmoid(found.tuned.shift)
    assert torch.equal(found.tuned.thresholds, shift)


@pytest.mark.parametrize("kept", [0.4, 0.6, 0.8])
def test_where_only_positives_are_marked_decisions_are_as_many_as_with_all_labels(kept: float) -> None:
    """A share of the positives is marked, nothing else is known; the prior need not be the true share."""
    scores, y = drawn(3000, signal=2.5)
    marked = y & (torch.rand(y.shape, generator=torch.Generator().manual_seed(2)) < kept)
    full = checked_cuts(scores.double(), Entries.of(known(y), scores))
    found = tune_out_of_fold(scores, Targets(marked.float(), marked), {"all": torch.arange(len(SHARES))})
    truth = Entries.of(known(y), scores)
    assert found.tuned.notes["labels_without_negatives"] == len(SHARES)
    for kind, reached in f1_of(found.decided, truth).items():
        assert reached > f1_of(full.decided, truth)[kind] - 0.04
    assert calibration_error(found.calibrated.sigmoid(), known(y)) < 0.06


@pytest.mark.parametrize("answers", [20, 200, 600])
@pytest.mark.parametrize("kept", [0.4, 0.8])
def test_answered_suggestions_do_not_move_cuts_as_if_their_negatives_were_typical(kept: float, answers: int) -> None:
    """The truth answers the highest entries that are not marked: its "no" are negatives that scores have chosen."""
    scores, y = drawn(3000, signal=2.5)
    marked = y & (torch.rand(y.shape, generator=torch.Generator().manual_seed(2)) < kept)
    asked = torch.zeros_like(y)
    asked.view(-1)[torch.where(marked, -torch.inf, scores).flatten().topk(answers).indices] = True
    groups = {"all": torch.arange(len(SHARES))}
    before = tune_out_of_fold(scores, Targets(marked.float(), marked), groups)
    after = tune_out_of_fold(scores, Targets((marked | (asked & y)).float(), marked | asked), groups)
    truth = Entries.of(known(y), scores)
    for kind, reached in f1_of(after.decided, truth).items():
        assert reached > f1_of(before.decided, truth)[kind] - 0.03
    assert calibration_error(after.calibrated.sigmoid(), known(y)) < 0.06


def test_negatives_that_were_drawn_at_random_stay_typical() -> None:
    """Half of all labels are observed, whatever their state: what is unknown has no part in the cuts."""
    scores, y = drawn(3000, signal=2.5)
    seen = torch.rand(y.shape, generator=torch.Generator().manual_seed(3)) < 0.5
    found = Entries.of(Targets((y & seen).float(), seen), scores)
    assert torch.equal(found.counted, seen)
    assert found.marked.eq(1).all()
