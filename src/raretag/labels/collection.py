"""Items with their labels, and the splits of a data set: what every source in `data` gives."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
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


class Selected:
    """Some rows of other inputs: the training part, say. Items keep the number they had, and with it their draws."""

    def __init__(self, inputs: Inputs, rows: NDArray[np.int64] | Tensor) -> None:
        self.inputs, self.rows = inputs, torch.as_tensor(rows, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return self.inputs.batch(self.rows[rows], epoch)

    def describe(self) -> dict[str, Any]:
        """How a raw item becomes a tensor, if the inputs can say."""
        describe = getattr(self.inputs, "describe", None)
        return {} if describe is None else describe()


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

    def take(self, rows: Tensor) -> Items:
        """These rows, in this order."""
        return Items(Selected(self.inputs, rows), self.labels.take(rows))

    def duplicates(self) -> int:
        """How many items have the same input as an item before them."""
        seen: set[bytes] = set()
        for rows in torch.arange(len(self)).split(256):
            for row in self.inputs.batch(rows).numpy():
                seen.add(hashlib.blake2b(row.tobytes(), digest_size=16).digest())
        return len(self) - len(seen)


@dataclass(frozen=True)
class DataSet:
    """The splits of a data set. Counts, groups and thresholds never come from `test`."""

    name: str
    train: Items
    validation: Items
    test: Items
    truth: LabelStore | None = None  # training labels before some were hidden, where they are known
    published: Tensor | None = None  # [C] positives that decide the groups, where some of them were held out of `train`
    notes: dict[str, Any] = field(default_factory=dict)  # how it was made, for the record
    remarks: tuple[str, ...] = ()  # what was guessed or decided for the user, who should see it

    @property
    def parts(self) -> dict[str, Items]:
        """The splits by name: train, validation, test."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one item, as the model gets it."""
        return tuple(self.train.inputs.batch(torch.arange(1)).shape[1:])

    def __post_init__(self) -> None:
        for split in (self.validation, self.test):
            if split.labels.names != self.train.labels.names:
                raise UserError(
                    f"the splits of '{self.name}' do not have the same label list "
                    f"({self.train.labels.labels} and {split.labels.labels} labels): expected one list in one order"
                )
