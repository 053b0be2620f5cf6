"""Where training stands."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from raretag.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Context:
    """Which items a batch holds, and which epoch runs. Methods without memory or schedule ignore it."""

    index: Tensor | None = None  # [B] int64, row numbers in the label store
    epoch: int = 0  # counted from 0
    epochs: int = 1

    @property
    def items(self) -> Tensor:
        """The row numbers, for methods that cannot do without them."""
        if self.index is None:
            raise UserError(
                "this method remembers items: pass Context(index=rows, ...) with the row number of each item"
            )
        return self.index
