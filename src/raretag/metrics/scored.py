"""What metrics take in: scores beside their targets, sums that merge by adding, and scores in an order that is quick.

numpy sorts rows of integers many times faster than torch sorts floats with their indices. So each score becomes an
integer that sorts as the score does, and the label rides along in the lowest bit (`keys`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import processes
from raretag.core.errors import UserError
from raretag.core.targets import Targets

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores beside their targets, checked; `+` appends rows. Logits or probabilities: only their order counts.

    >>> import torch, raretag
    >>> targets = raretag.Targets.from_dense([[1, 0], [1, 1], [0, float("nan")]])
    >>> logits = torch.tensor([[2.0, -1.0], [-0.5, 0.3], [1.0, 0.0]])
    >>> both = raretag.metrics.Scored(logits, targets)
    >>> len(both + both)
    6
    """

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
            "expected [items, labels] for both; was the model made for another label list?"
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
    """[N, C] bool: observed and present. Metrics need facts, so a soft value is refused where it was observed."""
    positive = targets.observed & (targets.value != 0)
    # Positives are few: to look at their values alone is quicker than to compare everything again.
    if (targets.value[positive] != 1).any():
        row, column = (positive & (targets.value != 1)).nonzero()[0].tolist()
        raise UserError(
            f"the target of row {row}, column {column} is {targets.value[row, column].item():g}, expected 0 or 1: "
            "mark it as not observed, or round soft labels before measuring"
        )
    return positive


@dataclass(frozen=True, slots=True)
class Sums:
    """Every field is an int64 tensor of sums: adding is exact, so no order of batches or processes can matter."""

    def __add__(self, other: Self) -> Self:
        mine, theirs = self._fields(), other._fields()
        for name, value in mine.items():
            if value.shape != theirs[name].shape:
                raise UserError(
                    f"cannot add {name} of shape {tuple(value.shape)} and {tuple(theirs[name].shape)}: "
                    "were the two counted with different label lists or options?"
                )
        return type(self)(**{name: value + theirs[name] for name, value in mine.items()})

    def over_processes(self) -> Self:
        return type(self)(**{name: processes.total(value) for name, value in self._fields().items()})

    def _fields(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


Integers = NDArray[np.int64]
Places = NDArray[np.int32]

UNKNOWN = np.int64(2**62)  # after every key; even, so that it is no positive
_ENTRIES_AT_ONCE = 2**18  # keeps a block and its sorted copy in the cache


def keys(scores: Tensor, observed: Tensor, positive: Tensor) -> Integers:
    """One key for each entry of [R, L]. Ascending keys are descending scores, and the lowest bit is `positive`.

    Equal scores have equal keys but for that bit, so negatives come first within a tie. Unknown entries come last.
    """
    image = _ranks(scores) if scores.dtype == torch.float64 else _bits(scores)
    key = image.astype(np.int64)
    key <<= 1
    key |= positive.cpu().numpy()
    key[~observed.cpu().numpy()] = UNKNOWN
    return key


def blocks(lines: int, length: int) -> Iterator[slice]:
    """Cut [lines, length] into groups of lines of bounded size."""
    step = max(1, _ENTRIES_AT_ONCE // max(1, length))
    return (slice(start, start + step) for start in range(0, lines, step))


def _bits(scores: Tensor) -> NDArray[np.int32]:
    """float32 (or less) as int32 in descending order."""
    bits = (scores.detach().cpu().float() + 0.0).contiguous().numpy().view(np.int32)  # + 0.0 turns -0.0 into 0.0
    # Positive floats sort as their bits do; in negative ones all bits but the sign run backwards.
    descending: NDArray[np.int32] = ~(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    return descending


def _ranks(scores: Tensor) -> Integers:
    """Dense ranks in descending order; for float64, whose bits leave no room for a label."""
    values = scores.detach().cpu().contiguous().numpy()  # [R, L]
    order = np.argsort(values, axis=1)
    ascending = np.take_along_axis(values, order, axis=1)
    rank = np.zeros(values.shape, dtype=np.int64)
    np.cumsum(ascending[:, 1:] != ascending[:, :-1], axis=1, out=rank[:, 1:])
    descending = np.empty_like(rank)
    np.put_along_axis(descending, order, -rank, axis=1)
    return descending


def mean_of_known(values: Tensor) -> float:
    """The mean of what is not NaN; NaN if there is nothing."""
    return float(torch.nanmean(values.double()))


def number_or_none(number: float) -> float | None:
    return None if math.isnan(number) else number


def list_or_none(values: Tensor) -> list[float | None]:
    return [number_or_none(value) for value in values.tolist()]
