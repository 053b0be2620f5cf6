"""Metrics of two processes that share the items are the metrics of one process that has them all."""

from __future__ import annotations

from pathlib import Path

import torch

from raretag.core.targets import Targets
from raretag.metrics.decisions import DecisionCounts, decide
from raretag.metrics.ranking import RankingSums
from raretag.metrics.scored import Scored
from support.two_processes import in_two


def compare(rank: int, folder: str) -> None:
    chance = torch.Generator().manual_seed(0)
    scores = torch.randn(11, 6, generator=chance)
    value = (torch.rand(11, 6, generator=chance) < 0.4).float()
    targets = Targets(value, torch.rand(11, 6, generator=chance) < 0.7)
    mine = slice(rank, None, 2)

    joined = Scored(scores[mine], targets[mine]).over_processes()
    assert torch.equal(joined.scores, scores)
    assert torch.equal(joined.targets.value, value)
    assert torch.equal(joined.targets.observed, targets.observed)

    counts = DecisionCounts.of(decide(scores[mine], 0.0), targets[mine]).over_processes()
    whole = DecisionCounts.of(decide(scores, 0.0), targets)
    assert torch.equal(counts.tp, whole.tp)
    assert torch.equal(counts.exact, whole.exact)
    ranks = RankingSums.of(scores[mine], targets[mine]).over_processes()
    assert torch.equal(ranks.losses, RankingSums.of(scores, targets).losses)


def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    in_two(compare, tmp_path)
