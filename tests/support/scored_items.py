"""Small sets of scored items with everything that is awkward in them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from raretag.core.targets import Targets
from raretag.metrics.ranking import propensities
from raretag.metrics.scored import Scored


def propensity(labels: int) -> Tensor:
    return propensities(torch.arange(labels), 100)


def drawn(items: int, labels: int, seed: int, *, unknown: float = 0.3, dtype: torch.dtype = torch.float32) -> Scored:
    """Scores with ties, some labels without positives, some labels and rows never observed."""
    chance = torch.Generator().manual_seed(seed)
    scores = torch.randint(-4, 5, (items, labels), generator=chance).to(dtype) / 4
    rate = torch.rand(labels, generator=chance).round(decimals=1)
    value = (torch.rand(items, labels, generator=chance) < rate).float()
    observed = torch.rand(items, labels, generator=chance) >= unknown
    observed[:, torch.rand(labels, generator=chance) < unknown / 2] = False
    observed[torch.rand(items, generator=chance) < unknown / 2] = False
    return Scored(scores, Targets(value, observed))


PROBLEMS = st.builds(
    drawn,
    st.integers(0, 20),
    st.integers(1, 9),
    st.integers(0, 10**6),
    unknown=st.sampled_from([0.0, 0.3, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
