"""Single positive labels: what methods for them remember, and a validation part that knows no more than training."""

from __future__ import annotations

import torch

from raretag.config.settings import compose
from raretag.core.context import Context
from raretag.core.method import Method, build_method
from raretag.core.targets import LabelStatistics, Targets
from raretag.data.sources import load
from raretag.metrics.precision_curve import average_precision

ITEMS, EPOCHS = 40, 10
INDEX = torch.arange(ITEMS)
LOGITS = torch.randn(ITEMS, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OBSERVED = torch.zeros(ITEMS, 2, dtype=torch.bool)
OBSERVED[:4] = True
TARGETS = Targets(torch.ones(ITEMS, 2, dtype=torch.float64), OBSERVED)
STATISTICS = LabelStatistics(torch.tensor([4, 4]), torch.tensor([0, 0]), ITEMS)


def made(name: str, **options: object) -> Method:
    return build_method(name, STATISTICS, items=ITEMS, **options)


def completed(method: Method, epoch: int = 0, logits: torch.Tensor = LOGITS) -> torch.Tensor:
    return method.objective.complete(logits, TARGETS, Context(INDEX, epoch, EPOCHS)).value


def an_epoch(method: Method, epoch: int, logits: torch.Tensor = LOGITS) -> None:
    context = Context(INDEX, epoch, EPOCHS)
    method.loss(logits, TARGETS, context)
    method.end_epoch(context)


def test_the_least_likely_become_pseudo_negatives_step_by_step_and_for_good() -> None:
    method = made("entropy_maximisation", theta=0.5, warm_up=0.5)
    each = int(0.5 * 36 / 5)
    for epoch in range(EPOCHS):
        an_epoch(method, epoch)
        value = completed(method)
        found = (value > 0) & ~OBSERVED
        assert found.sum(0).tolist() == [each * max(0, epoch - 3)] * 2  # first after epoch 4, counted from 0
        if epoch == 6:
            p = torch.sigmoid(LOGITS)
            torch.testing.assert_close(value[found], p[found], rtol=1e-2, atol=1e-3)
            for c in range(2):
                assert p[found[:, c], c].max() < p[~found[:, c] & ~OBSERVED[:, c], c].min()
    before = completed(method)
    an_epoch(method, 9, logits=-LOGITS)
    kept = (before > 0) & ~OBSERVED
    assert torch.equal(completed(method)[kept], before[kept])


def test_without_pseudo_labels_nothing_is_remembered() -> None:
    method = made("entropy_maximisation", pseudo_labels=False)
    for epoch in range(EPOCHS):
        an_epoch(method, epoch)
    assert torch.equal(completed(method), TARGETS.positive)


def test_what_is_corrected_for_good_stays_and_more_comes() -> None:
    method = made("large_loss", scheme="permanent", delta=0.05)  # 4 of 80 labels in a step
    an_epoch(method, 0)
    assert torch.equal(completed(method, epoch=0), TARGETS.positive)
    an_epoch(method, 1)
    first = completed(method, epoch=0) > 0
    assert int(first.sum() - OBSERVED.sum()) == 4
    assert LOGITS[first & ~OBSERVED].min() > LOGITS[~first].max()
    an_epoch(method, 2, logits=-LOGITS)
    second = completed(method, epoch=0) > 0
    assert int(second.sum() - OBSERVED.sum()) == 8
    assert (second | ~first).all()


def test_what_is_corrected_for_a_step_is_forgotten() -> None:
    method = made("large_loss", scheme="correct", delta=0.05)
    an_epoch(method, 2)
    assert int((completed(method, epoch=2) > 0).sum() - OBSERVED.sum()) == 8
    assert torch.equal(completed(method, epoch=0), TARGETS.positive)


def test_validation_may_know_no_more_than_training() -> None:
    settings = ["data.name=digits", "data.hide=spl", "data.largest=40"]
    whole = load(compose(None, settings).data, 0)
    honest = load(compose(None, [*settings, "data.hide_validation=true"]).data, 0)
    assert whole.validation.labels.targets().observed.all()
    seen = honest.validation.labels.targets()
    assert (seen.observed.sum(1) <= 1).all()
    assert (seen.positive <= whole.validation.labels.targets().positive).all()
    assert torch.equal(honest.train.labels.targets().positive, whole.train.labels.targets().positive)
    assert honest.test.labels.targets().observed.all()


def test_a_validation_part_of_positives_alone_tells_good_models_from_bad() -> None:
    """Unknown labels count as negatives there, or every ranking would be perfect."""
    targets = Targets.from_dense([[1.0], [float("nan")], [float("nan")], [1.0]])
    good, bad = (torch.tensor([[z] for z in some]) for some in ([2.0, 0.0, 1.0, 3.0], [0.0, 2.0, 3.0, 1.0]))
    known = targets.assuming_negatives()
    assert float(average_precision(good, targets)) == float(average_precision(bad, targets)) == 1.0
    assert float(average_precision(good, known)) > float(average_precision(bad, known))
