"""Where to cut a ranking, for every label at once: for the best F1, or for a wanted precision or recall.

What is counted is evidence in [0, 1] for each entry. With labels as evidence this is the usual search, which believes
in every single positive. With calibrated probabilities as evidence it is the best cut a model expects, which needs no
positive at all. In between lies

    evidence = (1 - w) y + w p,    w = k / (n_c + k),    n_c observed positives of the label

so that a rare label listens to the model, whose calibration knows the group and all labels, and a frequent one to its
own items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from raretag.core.errors import UserError

Goal = Literal["f1", "precision", "recall"]
EVERY = 1e-3  # how far below the lowest score a cut lies that lets everything pass


@dataclass(frozen=True, slots=True)
class Ranked:
    """Entries of each label, best score first, one label a row; what is not observed comes last and counts nothing."""

    score: Tensor  # [C, N] float64, -inf where not observed
    below: Tensor  # [C, N] the next score, -inf after the last
    possible: Tensor  # [C, N] bool: a cut may lie after the entry, as equal scores fall on one side together
    positive: Tensor  # [C, N] bool
    observed: Tensor  # [C] int64, so many entries

    @classmethod
    def of(cls, scores: Tensor, observed: Tensor, positive: Tensor) -> Ranked:
        """From [N, C]."""
        score, row = torch.where(observed, scores.double(), -torch.inf).T.contiguous().sort(1, descending=True)
        below = torch.cat([score[:, 1:], torch.full_like(score[:, :1], -torch.inf)], 1)
        return cls(score, below, score > below, (positive & observed).T.gather(1, row), observed.sum(0))


def best_cuts(ranked: Ranked, evidence: Tensor, goal: Goal, wanted: float | None = None) -> Tensor:
    """[C] float64: choose what scores higher. NaN: nothing is known of the label; inf: never, the goal is out of reach.

    `evidence` [C, N] in ranked order; 0 for entries that are not observed.
    """
    possible = ranked.possible
    hits = evidence.double().cumsum(1)
    total = hits[:, -1:]
    chosen = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64)
    if goal == "f1":
        place = torch.where(possible, 2 * hits / (chosen + total), -1.0).argmax(1)
        reached = total[:, 0] > 0
    elif goal == "precision":
        good = possible & (hits >= _share(wanted, goal) * chosen)
        place, reached = good.shape[1] - 1 - good.flip(1).int().argmax(1), good.any(1)  # the last good one
    else:
        good = possible & (hits >= _share(wanted, goal) * total)
        place, reached = good.int().argmax(1), good.any(1) & (total[:, 0] > 0)
    high, low = (values.gather(1, place[:, None])[:, 0] for values in (ranked.score, ranked.below))
    cut = torch.where(low == -torch.inf, high - EVERY, (high + low) / 2)
    return torch.where(ranked.observed > 0, torch.where(reached, cut, torch.inf), torch.nan)


def _share(wanted: float | None, goal: str) -> float:
    if wanted is None or not 0 < wanted <= 1:
        raise UserError(f"the wanted {goal} is {wanted}; expected a share above 0 and up to 1, such as 0.8")
    return wanted - 1e-12  # sums are rounded
