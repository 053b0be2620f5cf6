"""Every behaviour, for every method. A new method adds a row to `cases.py` and nothing here."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raretag.core.context import Context
from raretag.core.registry import names
from raretag.core.targets import Targets
from support.batches import ALL, EDGES, EPOCHS, ITEMS, SAMES, a_batch, fit, label, loss_and_gradient, make
from support.cases import CASES
from support.method_table import Batch, Case, Options, Same

every_method = pytest.mark.parametrize("case", CASES.values(), ids=label)
every_setting = pytest.mark.parametrize(("case", "options"), ALL, ids=label)
every_edge = pytest.mark.parametrize(("case", "options"), EDGES, ids=label)


def test_the_folder_and_the_table_are_equal() -> None:
    assert set(names("methods")) == set(CASES)


@every_setting
@given(rows=st.integers(1, 4), labels=st.integers(1, 5), seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=15, deadline=None)
def test_agrees_with_the_formula(
    case: Case, options: Options, rows: int, labels: int, seed: int, data: st.DataObject
) -> None:
    logits, targets, index, positives = a_batch(rows, labels, seed)
    epoch = data.draw(st.sampled_from(case.epochs))
    y = torch.where(targets.observed, targets.value, torch.nan).tolist()
    batch = Batch(
        logits.tolist(),
        [[None if v != v else v for v in row] for row in y],
        positives.tolist(),
        ITEMS,
        index.tolist(),
        epoch,
        EPOCHS,
    )
    options = fit(options, labels)
    loss, _ = loss_and_gradient(make(case.name, options, positives), logits, targets, index, epoch)
    torch.testing.assert_close(loss.item(), case.expected(batch, options), rtol=1e-7, atol=1e-9)


@every_setting
def test_what_is_stored_under_an_unknown_label_does_not_matter(case: Case, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    poisoned = Targets(torch.where(targets.observed, targets.value, torch.nan), targets.observed)
    for epoch in case.epochs:
        clean = loss_and_gradient(make(case.name, options, positives), logits, targets, index, epoch)
        other = loss_and_gradient(make(case.name, options, positives), logits, poisoned, index, epoch)
        assert all(torch.equal(a, b) for a, b in zip(clean, other, strict=True))


@every_edge
def test_the_gradient_is_that_of_the_value(case: Case, options: Options) -> None:
    if not case.true_gradient or options.get("detach_focus"):
        pytest.skip("stops gradients on purpose; tests/methods/test_golden.py holds them")
    logits, targets, index, positives = a_batch()
    for epoch in case.epochs:
        method = make(case.name, options, positives).eval()
        context = Context(index, epoch, EPOCHS)
        assert torch.autograd.gradcheck(lambda z: method.loss(z, targets, context), logits.requires_grad_())  # noqa: B023


@every_edge
def test_is_finite_at_the_ends_of_float32(case: Case, options: Options) -> None:
    _, targets, index, positives = a_batch(8)
    targets = Targets(targets.value.float(), targets.observed)
    for extreme in (-1e4, -90.0, 0.0, 90.0, 1e4):
        for epoch in case.epochs:
            logits = torch.full((8, 5), extreme)
            logits[4:, ::2] *= -1  # rows at one end, and rows at both
            loss, gradient = loss_and_gradient(make(case.name, options, positives), logits, targets, index, epoch)
            assert loss.isfinite(), extreme
            assert gradient.isfinite().all(), extreme


@every_setting
def test_half_precision_logits_give_the_loss_of_the_same_numbers(case: Case, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    half, targets = logits.bfloat16(), Targets(targets.value.float(), targets.observed)
    for epoch in case.epochs:
        expected, slope = loss_and_gradient(make(case.name, options, positives), half.float(), targets, index, epoch)
        loss, gradient = loss_and_gradient(make(case.name, options, positives), half, targets, index, epoch)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradient.float(), slope, rtol=1e-2, atol=1e-6)


@every_setting
def test_knows_no_order_of_rows_and_labels(case: Case, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    rows = torch.tensor([2, 0, 3, 1])
    columns = torch.tensor([3, 1, 4, 0, 2]) if case.exchangeable_labels else torch.arange(5)
    turned = Targets(targets.value[rows][:, columns], targets.observed[rows][:, columns])
    for epoch in case.epochs:
        loss, gradient = loss_and_gradient(make(case.name, options, positives), logits, targets, index, epoch)
        other = make(case.name, fit(options, 5, columns), positives[columns])
        again, slope = loss_and_gradient(other, logits[rows][:, columns], turned, index[rows], epoch)
        torch.testing.assert_close(again, loss)
        torch.testing.assert_close(slope, gradient[rows][:, columns])


def empty_targets() -> dict[str, Targets]:
    _, targets, _, _ = a_batch()
    everything, label, row = torch.ones(4, 5, dtype=torch.bool), torch.zeros(4, 5), torch.zeros(4, 5)
    label[:, 1], row[2] = 1.0, 1.0
    return {
        "label without positives": Targets(targets.value * (1 - label), everything),
        "row without positives": Targets(targets.value * (1 - row), targets.observed | row.bool()),
        "row without observed labels": Targets(targets.value, targets.observed & ~row.bool()),
        "nothing observed": Targets(targets.value, ~everything),
    }


@every_setting
def test_survives_what_is_empty(case: Case, options: Options) -> None:
    logits, _, index, positives = a_batch()
    ignores = case.unknown is not None  # the row has an option `unknown`
    for empty, targets in empty_targets().items():
        for epoch in case.epochs:
            method = make(case.name, {**options, "unknown": "ignore"} if ignores else options, positives)
            loss, gradient = loss_and_gradient(method, logits, targets, index, epoch)
            assert loss.isfinite(), empty
            assert gradient.isfinite().all(), empty
            if ignores:
                assert not gradient[~targets.observed].any(), empty


@pytest.mark.parametrize(("case", "same"), SAMES, ids=label)
def test_reduces_to(case: Case, same: Same) -> None:
    logits, targets, index, positives = a_batch()
    for epoch in case.epochs:
        ours = loss_and_gradient(make(case.name, same.options, positives), logits, targets, index, epoch)
        other = make(same.other, same.other_options, positives)
        theirs = loss_and_gradient(other, logits, targets, index, epoch)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, same.scale * b)


@every_setting
def test_leaves_the_caller_alone(case: Case, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    before = [tensor.clone() for tensor in (logits, targets.value, targets.observed, index, positives)]
    method = make(case.name, options, positives)
    with torch.no_grad():
        method.loss(logits, targets, Context(index, case.epochs[-1], EPOCHS))
        assert not torch.is_grad_enabled()
    method.loss(logits.requires_grad_(), targets, Context(index, case.epochs[-1], EPOCHS))
    assert torch.is_grad_enabled()
    after = (logits, targets.value, targets.observed, index, positives)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@every_setting
def test_a_checkpoint_carries_all_it_knows(case: Case, options: Options) -> None:
    logits, targets, index, positives = a_batch()
    first = make(case.name, options, positives)
    for epoch in range(2):
        loss_and_gradient(first, logits, targets, index, epoch)
        first.end_epoch(Context(epoch=epoch, epochs=EPOCHS))
    second = make(case.name, options, positives.flip(0))  # knows other counts until the state is loaded
    second.load_state_dict(first.state_dict())
    for epoch in (2, *case.epochs):
        a = loss_and_gradient(first.eval(), logits, targets, index, epoch)
        b = loss_and_gradient(second.eval(), logits, targets, index, epoch)
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
