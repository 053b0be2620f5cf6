"""Tuned thresholds are the best ones, and unknown labels have no say."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raretag.core.targets import Targets
from raretag.metrics import decisions
from raretag.metrics.calibration import best_f1_thresholds


def f1_at(p, targets, thresholds):
    return decisions.f1(decisions.DecisionCounts.of(decisions.decide(p, thresholds), targets))


@given(seed=st.integers(0, 10_000), steps=st.sampled_from([3, 10, 1000]))
@settings(max_examples=50, deadline=None)
def test_no_other_threshold_has_a_better_f1(seed, steps):
    generator = torch.Generator().manual_seed(seed)
    p = torch.randint(steps, (12, 3), generator=generator).double() / steps
    targets = Targets(
        torch.randint(2, (12, 3), generator=generator).float(), torch.rand(12, 3, generator=generator) > 0.3
    )
    best = f1_at(p, targets, best_f1_thresholds(p, targets))
    for other in torch.linspace(-0.01, 1, 50):
        at = f1_at(p, targets, float(other))
        assert (best[~best.isnan()] >= at[~best.isnan()] - 1e-12).all()


def test_what_is_stored_under_unknown_labels_does_not_matter():
    p = torch.rand(20, 4)
    value, observed = (torch.rand(20, 4) > 0.5).float(), torch.rand(20, 4) > 0.4
    observed[:, 3] = False  # a label that nobody looked at
    poisoned = Targets(torch.where(observed, value, torch.nan), observed)
    found = best_f1_thresholds(p, poisoned)
    assert torch.equal(found, best_f1_thresholds(p, Targets(value, observed)))
    assert found.isfinite().all()
