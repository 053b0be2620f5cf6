"""Scores next to the targets they are judged by, for metrics that need all scores at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core import processes
from raretag.core.errors import UserError
from raretag.core.targets import Targets


@dataclass(frozen=True, slots=True)
class Scored:
    """A checked pair. Scores may be logits or probabilities: only their order counts. `+` appends rows."""

    scores: Tensor  # [N, C] float
    targets: Targets  # [N, C]

    def __post_init__(self) -> None:
        check_scores(self.scores, self.targets)

    @property
    def positive(self) -> Tensor:
        return positives(self.targets)

    def __len__(self) -> int:
        return len(self.scores)

    def __add__(self, other: Scored) -> Scored:
        return Scored.joined([self, other])

    @classmethod
    def joined(cls, parts: Iterable[Scored]) -> Scored:
        """All rows of many parts, copied once."""
        parts = list(parts)
        widths = {part.scores.shape[1] for part in parts}
        if len(widths) != 1:
            raise UserError(f"cannot join scores of {sorted(widths) or 'no'} labels: expected parts of one label list")
        value = torch.cat([part.targets.value for part in parts])
        observed = torch.cat([part.targets.observed for part in parts])
        return cls(torch.cat([part.scores for part in parts]), Targets(value, observed))

    def over_processes(self) -> Scored:
        observed = processes.rows(self.targets.observed.byte()).bool()  # not every backend gathers bool
        return Scored(processes.rows(self.scores), Targets(processes.rows(self.targets.value), observed))


def check_scores(scores: Tensor, targets: Targets) -> None:
    if scores.dim() != 2 or scores.shape != targets.value.shape:
        raise UserError(
            f"scores {tuple(scores.shape)} do not match targets {tuple(targets.value.shape)}: "
            "expected [items, labels] for both; was the model made for a different label list?"
        )
    if not scores.is_floating_point():
        raise UserError(f"scores are {scores.dtype}, expected floating point: were decisions passed instead of scores?")
    check_no_nan(scores)


def check_no_nan(scores: Tensor) -> None:
    # A sum is NaN if any term is (or if both infinities occur), and costs a third of looking at every entry.
    if torch.isnan(scores.detach().sum()) and (wrong := torch.isnan(scores)).any():
        row, column = wrong.nonzero()[0].tolist()
        raise UserError(f"the score of row {row}, column {column} is NaN, expected a number: did the training diverge?")


def positives(targets: Targets) -> Tensor:
    """[N, C] bool: observed and present. Metrics judge facts, so a soft value is refused where it was observed."""
    positive = targets.observed & (targets.value != 0)
    # Positives are few: to look at their values alone is quicker than to compare everything again.
    if (targets.value[positive] != 1).any():
        row, column = (positive & (targets.value != 1)).nonzero()[0].tolist()
        raise UserError(
            f"the target of row {row}, column {column} is {targets.value[row, column].item():g}, expected 0 or 1: "
            "mark it as not observed, or round soft labels before measuring"
        )
    return positive
