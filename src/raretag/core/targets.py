"""What a batch knows about its labels: a value, and whether anyone looked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.context import NOWHERE, Context
from raretag.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Targets:
    """Labels of some items in three states: positive, negative, unknown.

    What is stored in `value` where `observed` is False means nothing and is never used, not even if it is NaN.
    """

    value: Tensor  # [B, C] float in [0, 1]
    observed: Tensor  # [B, C] bool

    def __post_init__(self) -> None:
        if self.value.shape != self.observed.shape:
            raise UserError(
                f"value {tuple(self.value.shape)} and observed {tuple(self.observed.shape)} must have one shape: "
                "each label needs both a value and whether it was observed"
            )
        if self.observed.dtype != torch.bool:
            raise UserError(f"observed must be a bool tensor, got {self.observed.dtype}; use `mask.bool()`")

    @property
    def positive(self) -> Tensor:
        """The value where it was observed, else 0."""
        return torch.where(self.observed, self.value, 0.0)

    @property
    def negative(self) -> Tensor:
        """One minus the value where it was observed, else 0."""
        return torch.where(self.observed, 1.0 - self.value, 0.0)

    @property
    def unknown(self) -> Tensor:
        return ~self.observed

    def __len__(self) -> int:
        return self.value.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Targets:
        return Targets(self.value[rows], self.observed[rows])

    def to(self, target: torch.device | str) -> Targets:
        return Targets(self.value.to(target), self.observed.to(target))


@dataclass(frozen=True, slots=True)
class Completed:
    """Targets after `complete` has decided what an unknown label is taken to be.

    `value` is finite everywhere. A label counts if it was observed or completed; the rest has no term in the loss.
    """

    value: Tensor  # t [B, C] in [0, 1], soft values allowed
    counted: Tensor  # [B, C] bool: there is a value
    observed: Tensor  # [B, C] bool: the value came from an annotator
    where: Context | None = None  # of the batch, for scores; the objective fills it in

    @property
    def context(self) -> Context:
        """Not a default of the field: compilers cannot carry an object of ours from outside."""
        return NOWHERE if self.where is None else self.where
