"""Some rows of other inputs: the training part, say. Items keep the number they had, and with it their random draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.labels.collection import Inputs


class Selected:
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
