"""Each label is the mean of its items; an item gets the labels whose direction is closest to its own.

    w_c = sum of x_i over the items that have label c, scaled to length 1
    s_c(x) = scale <w_c, x> / |x|

It reads the data once, so it is the baseline that other rankers must beat, and a cheap shortlist for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.ranker import Known, Ranked, Ranker
from raretag.ranking.line import best_by_lines, largest_of_rows, packed, row_numbers, unpacked


class Centroids(Ranker):
    """Class centroids of sparse rows, cut to their largest entries.

    >>> x = sparse.csr_array(np.eye(3, dtype=np.float32))
    >>> ranker = Centroids()
    >>> ranker.fit(x, Known(sparse.csr_array(np.array([[1, 0], [0, 1], [0, 1]], bool))))
    >>> ranker.rank(x, 1).labels.ravel().tolist()
    [0, 1, 1]
    """

    def __init__(self, *, columns: int = 500, scale: float = 10.0) -> None:
        if columns < 1 or scale <= 0:
            raise UserError(f"columns is {columns} and scale {scale}; expected 1 or more, and above 0")
        self.columns, self.scale = columns, scale
        self.length = 0.0  # of the rows that it was fitted to; 0: of several lengths
        self.weight: Any = None  # [D, C], stored by rows: a sparse batch [B, D] times it is cheap

    def fit(self, x: sparse.csr_array, known: Known, listener: Listener = SILENT) -> None:
        lengths = row_lengths(x)[np.diff(x.indptr) > 0]
        steady = len(lengths) and np.ptp(lengths) <= 1e-3 * lengths.max()
        self.length = float(lengths.mean()) if steady else 0.0
        rows, by_label, parts = unit_rows(x), known.positive.T.astype(np.float32).tocsr(), []  # [N, D], [C, N]
        for start in range(0, known.labels, 4096):  # the entries of all labels before cutting may be many
            sums = sparse.csr_array(by_label[start : start + 4096] @ rows)
            parts.append(unit_rows(largest_of_rows(sums, self.columns)))
            listener.progress(min(1.0, (start + 4096) / known.labels))
        self.weight = sparse.csr_array(sparse.vstack(parts)).T.tocsr()

    def rank(self, x: sparse.csr_array, k: int) -> Ranked:
        found = best_by_lines(unit_rows(x), self.weight, None, k)
        return Ranked(found.labels, np.float32(self.scale) * found.scores)

    def state(self) -> dict[str, Tensor]:
        return {"length": torch.tensor(self.length), **packed(self.weight)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.length, self.weight = float(state["length"]), unpacked(state)

    def line(self) -> tuple[sparse.csr_array, NDArray[np.float32]] | None:
        """Where all rows have one length, dividing by it is a factor of W."""
        if not self.length:
            return None
        weight = sparse.csr_array(self.weight * np.float32(self.scale / self.length))
        return weight, np.zeros(weight.shape[1], np.float32)

    def learned(self) -> dict[str, Any]:
        return {"weights": int(self.weight.nnz)}


def unit_rows(x: sparse.csr_array) -> sparse.csr_array:
    """Rows of length 1; an empty row stays empty."""
    length = np.repeat(row_lengths(x).clip(min=1e-15), np.diff(x.indptr))
    return sparse.csr_array(((x.data / length).astype(np.float32), x.indices, x.indptr), shape=x.shape)


def row_lengths(x: sparse.csr_array) -> NDArray[np.float64]:
    return np.sqrt(np.bincount(row_numbers(x), x.data.astype(np.float64) ** 2, x.shape[0]))
