"""Items with their labels, and the splits of a data set: what every source in `data` gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from raretag.core.errors import UserError
from raretag.labels.store import LabelStore


class Inputs(Protocol):
    """Where a model's inputs come from; rows are numbered as in the label store."""

    def __len__(self) -> int: ...

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        """The inputs of some rows; `epoch` is None where nothing may be random, as in evaluation."""
        ...


class TensorInputs:
    """Inputs that fit into memory."""

    def __init__(self, values: Tensor) -> None:
        self.values = values  # [N, ...]

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return self.values[rows]


@dataclass(frozen=True)
class Items:
    """Inputs and labels, row by row."""

    inputs: Inputs
    labels: LabelStore

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise UserError(
                f"{len(self.inputs)} inputs do not match {len(self.labels)} rows of labels: "
                "expected one row for each item; were they read from two different files?"
            )

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class DataSet:
    """The splits of a data set. Counts, groups and thresholds never come from `test`."""

    name: str
    train: Items
    validation: Items
    test: Items
    truth: LabelStore | None = None  # training labels before some were hidden, where they are known
    notes: dict[str, Any] = field(default_factory=dict)  # how it was made, for the record
    remarks: tuple[str, ...] = ()  # what was guessed or decided for the user, who should see it

    def __post_init__(self) -> None:
        for split in (self.validation, self.test):
            if split.labels.names != self.train.labels.names:
                raise UserError(
                    f"the splits of '{self.name}' do not have the same label list "
                    f"({self.train.labels.labels} and {split.labels.labels} labels): expected the same names in one order"
                )
