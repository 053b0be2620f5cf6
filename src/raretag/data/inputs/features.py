"""Feature vectors, dense or sparse; `batch` makes sparse rows dense, `sparse_batch` leaves them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError, some

FAR = 1e4  # times the middle half of a column; numbers that were meant, such as incomes, stay well below
_ROWS = 4096  # looked at together, so that a file larger than the memory can be checked


class Features:
    """Rows of an array [N, D] or of a sparse matrix; with `scale`, every column is shifted and scaled."""

    def __init__(self, values: Any, *, names: Sequence[str] | None = None, scale: Scale | None = None) -> None:
        if sparse.issparse(values):
            values = sparse.csr_array(values, dtype=np.float32)
            values.sum_duplicates()
        elif isinstance(values, Tensor):
            values = values.detach().cpu().numpy()
        if values.ndim < 2 or (sparse.issparse(values) and scale is not None):
            raise UserError(f"features have shape {values.shape}; expected [N, D], and no scale if they are sparse")
        self.values, self.names, self.scale = values, names, scale

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        found = self.values[rows.numpy()]
        if self.scale is None and found.dtype == np.float16:
            return torch.from_numpy(found).float()  # numpy takes twenty times as long
        found = found.toarray() if sparse.issparse(found) else np.asarray(found, np.float32)  # a copy already
        return torch.from_numpy(found if self.scale is None else self.scale(found))

    def sparse_batch(self, rows: Tensor) -> sparse.csr_array | None:
        return self.values[rows.numpy()] if sparse.issparse(self.values) else None

    def content(self, rows: Tensor) -> Tensor:
        return chance.of_rows(self.values[rows.numpy()])

    def describe(self) -> dict[str, Any]:
        names = None if self.names is None else list(self.names)
        scale = None if self.scale is None else {"mean": self.scale.mean.tolist(), "std": self.scale.std.tolist()}
        return {"kind": "features", "shape": list(self.values.shape[1:]), "names": names, "scale": scale}


class Scale:
    """Column by column to mean 0 and deviation 1; a column that never changes becomes 0."""

    def __init__(self, mean: Any, std: Any) -> None:
        self.mean, self.std = np.asarray(mean, np.float64), np.asarray(std, np.float64)

    @classmethod
    def of(cls, values: NDArray[Any], rows: NDArray[np.int64]) -> Scale:
        """Of the training rows; sums of blocks, around the first row so that large numbers lose nothing."""
        around = np.asarray(values[rows[0]], np.float64)
        total, squares = np.zeros_like(around), np.zeros_like(around)
        for start in range(0, len(rows), _ROWS):
            block = np.asarray(values[rows[start : start + _ROWS]], np.float64) - around
            total += block.sum(axis=0)
            squares += (block**2).sum(axis=0)
        mean = total / len(rows)
        return cls(around + mean, np.sqrt(np.maximum(squares / len(rows) - mean**2, 0)))

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float32]:
        steady = self.std <= 1e-12 * np.maximum(np.abs(self.mean), 1)
        return np.where(steady, 0, (values - self.mean) / np.where(steady, 1, self.std)).astype(np.float32)


def not_finite(values: Any) -> dict[int, str]:
    """Rows with a NaN or an infinite number, which no model can take."""
    bad: dict[int, str] = {}
    for start in range(0, values.shape[0], _ROWS):
        block = values[start : start + _ROWS]
        if sparse.issparse(block):
            rows = np.unique(block.tocoo().coords[0][~np.isfinite(block.data)])
        else:
            flat = np.asarray(block).reshape(len(block), -1)
            rows = np.flatnonzero(~np.isfinite(flat).all(axis=1))
        bad |= {start + int(row): "a feature is blank or infinite" for row in rows}
    return bad


def odd_columns(values: NDArray[Any], names: Sequence[str]) -> list[str]:
    """Remarks on columns that will not teach what their owner thinks.

    Which columns of `values` [N, D] hold one number only, and which hold one beside which all others look the same.
    """
    steady, far = [], []
    for name, column in zip(names, values.T, strict=True):
        low, middle, high = np.percentile(column, (25, 50, 75))
        away = np.abs(column - middle)
        row = int(away.argmax())
        if away[row] == 0:
            steady.append(f"'{name}'")
        elif low < high and away[row] > FAR * (high - low):
            far.append(f"'{name}' has {column[row]:g} where half of it lies in {low:g} to {high:g}")
    remarks = [f"the same number in every item, so it carries no information: {some(steady, 5)}"] if steady else []
    if far:
        remarks.append(f"a number far from all others, perhaps a placeholder for a missing one: {some(far, 5, '; ')}")
    return remarks
