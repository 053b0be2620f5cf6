"""What metrics remember of a batch: tensors of sums, which merge by adding."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from torch import Tensor

from raretag.core import processes
from raretag.core.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Self


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
