"""What partial label masking learns in an epoch, and what it then masks."""

from __future__ import annotations

from math import exp, log
from typing import Any

import pytest
import torch
from torch import Tensor

from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.method import Method, build_method
from raretag.core.targets import Completed, LabelStatistics, Targets
from raretag.methods.partial_label_masking import Mask, discrepancy, divergences
from support.paths import GOLDEN

TOY = GOLDEN["other"]["plm_ratio_update"]
FLOORS = {"tfport_eps2.2e-16": 2.220446049250313e-16, "eps_1e-08": 1e-8, "eps_1e-06": 1e-6, "eps_0.001": 1e-3}
SETTINGS = [(bins, floor) for bins in (4, 10) for floor in FLOORS]


def make(positives: list[int], items: int, **options: Any) -> Method:
    return build_method("partial_label_masking", LabelStatistics.of_counts(positives, items), items=items, **options)


def mask_of(method: Method) -> Mask:
    mask = method.objective.keep
    assert isinstance(mask, Mask)
    return mask


def seen(value: Tensor, observed: Tensor | None = None) -> Targets:
    return Targets(value, torch.ones_like(value, dtype=torch.bool) if observed is None else observed)


def toy_batch() -> tuple[Tensor, Targets]:
    """The toy example of the paper's appendix is the first label.

    .3 and .6 lie on edges of ten bins; the vectors have them below the edge, the other such numbers above.
    """
    p = torch.tensor(TOY["probs"], dtype=torch.float64)
    p = p + 1e-9 - 2e-9 * ((p == 0.3) | (p == 0.6)).double()
    return torch.logit(p), seen(torch.tensor(TOY["labels(10 samples x 3 classes)"], dtype=torch.float64))


@pytest.mark.parametrize("bins", [4, 10])
def test_the_histograms_are_those_of_the_appendix(bins: int) -> None:
    method = make([5, 5, 5], 10, bins=bins)
    method.loss(*toy_batch(), Context(torch.arange(10)))
    positive, negative = mask_of(method).histograms.tolist()
    expected = TOY["results"][f"tau={bins}"]
    assert positive == expected["hist_pos_pred(bins x classes)"]
    assert negative == expected["hist_neg_pred"]
    if bins == 4:
        assert [row[0] for row in positive] == [1, 1, 1, 2]


@pytest.mark.parametrize(("bins", "floor"), SETTINGS)
def test_divergences_and_ratios_are_the_golden_ones(bins: int, floor: str) -> None:
    results = TOY["results"][f"tau={bins}"]
    expected = results[floor]
    histograms = torch.tensor([results["hist_pos_pred(bins x classes)"], results["hist_neg_pred"]])
    D = discrepancy(histograms, FLOORS[floor])
    sides = torch.tensor([expected["D_pos"], expected["D_neg"]], dtype=torch.float64)
    # The port adds its floor inside the logarithm too, which shows in the last digits.
    torch.testing.assert_close(divergences(histograms, FLOORS[floor]), sides, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(D, torch.tensor(expected["D"], dtype=torch.float64), rtol=1e-6, atol=1e-7)
    for rate in ("0.01", "1"):
        if f"ratio_multiplier_lambda{rate}" in expected:
            multiplier = torch.tensor(expected[f"ratio_multiplier_lambda{rate}"], dtype=torch.float64)
            torch.testing.assert_close(torch.exp(float(rate) * D), multiplier, rtol=1e-6, atol=1e-7)


def by_hand(p: list[list[float]], y: list[list[float | None]], bins: int, floor: float) -> list[float]:
    """D by eq. (4)-(6), in plain numbers; every label has both sides."""
    labels = range(len(p[0]))

    def divergence(side: int, c: int) -> float:
        values = [p[i][c] for i in range(len(p)) if y[i][c] == side]
        share = [0.0] * bins
        for value in values:
            share[min(int(value * bins), bins - 1)] += 1 / len(values)
        full = bins - 1 if side == 1 else 0
        return sum(s * (log(s) - (0.0 if b == full else log(floor))) for b, s in enumerate(share) if s)

    def normal(values: list[float]) -> list[float]:
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
        return [(v - mean) / deviation for v in values]

    up, down = normal([divergence(1, c) for c in labels]), normal([divergence(0, c) for c in labels])
    return [a - b for a, b in zip(up, down, strict=True)]


def test_an_epoch_in_batches_moves_the_ratios_as_by_hand() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(30, 4, generator=generator, dtype=torch.float64)
    value = (torch.rand(30, 4, generator=generator) < torch.tensor([0.7, 0.4, 0.3, 0.2])).double()
    observed = torch.rand(30, 4, generator=generator) < 0.8
    counts = [20, 12, 9, 6]
    method = make(counts, 30, rate=0.3, initial="mean")  # masks from the start: the masked are counted too
    for rows in torch.arange(30).split(7):
        method.loss(logits[rows], seen(value[rows], observed[rows]), Context(rows, 0, 5))
    method.end_epoch(Context(epoch=0, epochs=5))

    y = [[None if v != v else v for v in row] for row in torch.where(observed, value, torch.nan).tolist()]
    D = by_hand(torch.sigmoid(logits).tolist(), y, 10, 1e-8)
    mean = sum(n / (30 - n) for n in counts) / 4
    torch.testing.assert_close(mask_of(method).target.tolist(), [mean * exp(0.3 * d) for d in D])
    assert not mask_of(method).histograms.any()


def test_the_rate_is_one_over_the_epochs_unless_given() -> None:
    moved = []
    for options in ({}, {"rate": 0.25}):
        method = make([5, 5, 5], 10, **options)
        method.loss(*toy_batch(), Context(torch.arange(10), 0, 4))
        method.end_epoch(Context(epoch=0, epochs=4))
        moved.append(mask_of(method).target)
    assert torch.equal(*moved)
    assert not torch.equal(moved[0], mask_of(method).ratio)


def kept(method: Method, value: Tensor, epoch: int = 0, index: Tensor | None = None) -> Tensor:
    every = torch.ones_like(value, dtype=torch.bool)
    index = torch.arange(len(value)) if index is None else index
    return mask_of(method)(torch.zeros_like(value), Completed(value, every, every), Context(index, epoch, 10))


def test_kept_positives_and_negatives_stand_in_the_target_ratio() -> None:
    items = 200_000
    value = (torch.arange(items)[:, None] % 100 < torch.tensor([60, 30, 10, 2])).double()
    counts = value.sum(0)
    method = make(counts.long().tolist(), items)
    mask = mask_of(method)
    mask.target.copy_(torch.tensor([0.3, 0.5, 1 / 9, 0.1], dtype=torch.float64))
    keep = kept(method, value)
    for c, r_bar in enumerate(mask.target.tolist()):
        positives, negatives = (keep[:, c] & (value[:, c] == side) for side in (1, 0))
        n, m = int(positives.sum()), int(negatives.sum())
        error = n / m * (1 / n + 1 / m) ** 0.5
        assert abs(n / m - r_bar) < 4 * error
    assert keep[:, 2].all(), "the label that is at its target"
    assert keep[:, 0][value[:, 0] == 0].all(), "a label that is too frequent loses positives alone"
    assert keep[:, 3][value[:, 3] == 1].all(), "a label that is too rare loses negatives alone"


def test_a_mask_belongs_to_item_label_and_epoch() -> None:
    method = make([100, 3], 200, initial="mean")
    value = (torch.arange(200)[:, None] < torch.tensor([100, 3])).double()
    whole = kept(method, value)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    assert torch.equal(kept(method, value[order], index=order), whole[order])
    assert not torch.equal(kept(method, value, epoch=1), whole)
    assert not torch.equal(kept(make([100, 3], 200, initial="mean", seed=1), value), whole)


def test_clip_and_clamp_bound_the_ratios_after_the_first_update() -> None:
    logits, targets = toy_batch()
    for options, bound in (({"clip": 0.5}, 0.5), ({"clamp": 1.5}, 1.5), ({"clamp": None}, 1e9)):
        method = make([6, 5, 4], 10, rate=3.0, **options)
        ratio = mask_of(method).ratio.clone()
        assert torch.equal(mask_of(method).target, ratio)
        method.loss(logits, targets, Context(torch.arange(10)))
        method.end_epoch(Context())
        target = mask_of(method).target
        if "clip" in options:
            assert target.max() == bound
        else:
            assert (target / ratio).max() <= bound * (1 + 1e-12)
            assert (target / ratio).min() >= (1 - 1e-12) / bound
    assert (target / ratio).max() > 20, "the paper's ratios run away"


def test_the_clamp_does_not_undo_where_the_ratios_start() -> None:
    for initial in ("min", "max", "mean"):
        method = make([60, 2, 1], 100, rate=0.0, initial=initial, clamp=2.0)
        start = mask_of(method).target.clone()
        method.end_epoch(Context())
        assert torch.equal(mask_of(method).target, start)


def test_unknown_labels_are_in_no_histogram_unless_asked() -> None:
    logits, targets = toy_batch()
    observed = torch.ones_like(targets.observed)
    observed[:3] = False
    poisoned = torch.where(observed, targets.value, torch.nan)
    for count_unknown, number in ((False, 21), (True, 30)):
        method = make([5, 5, 5], 10, count_unknown=count_unknown)
        method.loss(logits, Targets(poisoned, observed), Context(torch.arange(10)))
        assert int(mask_of(method).histograms.sum()) == number
        assert int(mask_of(method).histograms[0].sum()) == 6


def test_a_label_that_lacks_a_side_keeps_its_ratio() -> None:
    logits, targets = toy_batch()
    value = targets.value.clone()
    value[:, 1] = 0.0
    method = make([5, 5, 5], 10, rate=1.0)
    method.loss(logits, seen(value), Context(torch.arange(10)))
    method.end_epoch(Context())
    move = mask_of(method).target / mask_of(method).ratio
    assert move[1] == 1.0
    # Two labels remain, so each normalised side is one deviation away from the mean.
    torch.testing.assert_close(move[[0, 2]].log().abs(), torch.tensor([2.0, 2.0], dtype=torch.float64))


def test_labels_that_do_equally_well_do_not_move() -> None:
    results = TOY["results"]["tau=10"]
    histograms = torch.tensor([results["hist_pos_pred(bins x classes)"], results["hist_neg_pred"]])[:, :, :1]
    for labels in range(1, 30):  # for some numbers of labels the mean of equal numbers is not that number
        assert discrepancy(histograms.expand(-1, -1, labels), 1e-8).abs().max() < 1e-5


def test_nothing_of_a_label_that_is_always_or_never_there_is_masked() -> None:
    logits, targets = toy_batch()
    method = make([10, 5, 0], 10, rate=3.0, clip=0.1)
    method.loss(logits, targets, Context(torch.arange(10)))
    method.end_epoch(Context())
    positive, negative = mask_of(method).chances()
    assert positive[[0, 2]].tolist() == negative[[0, 2]].tolist() == [1.0, 1.0]
    assert positive[1] < 1.0


def test_ratios_count_unknown_as_negative_if_the_base_does() -> None:
    statistics = LabelStatistics(torch.tensor([6, 2]), torch.tensor([3, 0]), 12)
    ignoring = build_method("partial_label_masking", statistics, items=12)
    assuming = build_method("partial_label_masking", statistics, items=12, base="assume_negative")
    assert mask_of(ignoring).ratio.tolist() == [2.0, 1.0]  # the second has no ratio: nothing of it is ever masked
    assert mask_of(assuming).ratio.tolist() == [1.0, 0.2]


def test_the_base_keeps_its_own_choice_and_its_sampler() -> None:
    method = make([5, 5], 10, base={"name": "ignore_likely", "warm_up": 0.0})
    alone = build_method("ignore_likely", LabelStatistics.of_counts([5, 5], 10), items=10, warm_up=0.0)
    logits = torch.tensor([[3.0, -3.0]], dtype=torch.float64)
    targets = Targets(torch.zeros(1, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.bool))
    context = Context(torch.tensor([4]), 5, 10)
    assert torch.equal(method.objective.terms(logits, targets, context)[1], torch.tensor([[False, True]]))
    assert torch.equal(method.loss(logits, targets, context), alone.loss(logits, targets, context))
    assert method.sampler == alone.sampler


def test_a_checkpoint_in_the_middle_of_an_epoch_loses_nothing() -> None:
    logits, targets = toy_batch()
    first, second = make([5, 5, 5], 10), make([1, 2, 3], 10)
    halves = torch.arange(10).split(5)
    first.loss(logits[halves[0]], targets[halves[0]], Context(halves[0]))
    second.load_state_dict(first.state_dict())
    for method in (first, second):
        method.loss(logits[halves[1]], targets[halves[1]], Context(halves[1]))
        method.end_epoch(Context())
    assert torch.equal(mask_of(first).target, mask_of(second).target)
    assert not torch.equal(mask_of(first).target, mask_of(first).ratio)


def test_vital_signs_tell_how_far_the_ratios_went_and_what_is_kept() -> None:
    method = make([50, 10], 100)
    assert method.vital_signs() == {"ratio_lowest": 1.0, "ratio_highest": 1.0, "kept_share": 1.0}
    mask_of(method).target.mul_(torch.tensor([0.5, 2.0]))
    signs = method.vital_signs()
    assert (signs["ratio_lowest"], signs["ratio_highest"]) == (0.5, 2.0)
    assert signs["kept_share"] == pytest.approx((25 + 50 + 10 + 45) / 200)


@pytest.mark.parametrize(
    "options",
    [
        {"rate": -1.0},
        {"bins": 1},
        {"floor": 0.0},
        {"clip": 0.0},
        {"clamp": 0.5},
        {"initial": "median"},
        {"base": "partial_label_masking"},
        {"base": "role"},
        {"base": {"gamma": 2.0}},
        {"base": {"name": "focal", "gama": 2.0}},
        {"base": "focall"},
    ],
)
def test_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        make([5, 5], 10, **options)


def test_asks_for_the_items() -> None:
    with pytest.raises(UserError, match="index"):
        make([5, 5, 5], 10).loss(*toy_batch())
