"""Each label is the mean of its items; an item gets the labels that point into its direction.

    w_c = sum of x_i over the items that have label c, scaled to length 1
    s_c(x) = scale <w_c, x> / |x|

It reads the data once, so it is the plain thing that other rankers must beat, and a cheap shortlist for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.ranker import Known, Ranked, Ranker, best_of

ENTRIES = 2**24  # scores that are in memory at once


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
        sums = known.positive.T.astype(np.float32).tocsr()  # [C, N]
        parts = []
        for start in range(0, known.labels, 4096):  # the entries of all labels before cutting may be many
            parts.append(self._centroids(sums[start : start + 4096] @ unit_rows(x)))
            listener.progress(min(1.0, (start + 4096) / known.labels))
        self.weight = sparse.csr_array(sparse.vstack(parts)).T.tocsr()

    def _centroids(self, sums: sparse.csr_array) -> sparse.csr_array:
        """Rows [c, D] with their largest entries, of length 1."""
        sums = sparse.csr_array(sums)
        row = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
        order = np.lexsort((-np.abs(sums.data), row))
        place = np.arange(len(row)) - sums.indptr[row]
        keep = np.sort(order[place < self.columns])
        ends = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=sums.shape[0]))])
        return unit_rows(sparse.csr_array((sums.data[keep], sums.indices[keep], ends), shape=sums.shape))

    def rank(self, x: sparse.csr_array, k: int) -> Ranked:
        found = list(self._blocks(unit_rows(x), k))
        if not found:
            return Ranked(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))
        return Ranked(np.concatenate([one.labels for one in found]), np.concatenate([one.scores for one in found]))

    def _blocks(self, x: sparse.csr_array, k: int) -> Iterator[Ranked]:
        rows = max(1, ENTRIES // self.weight.shape[1])
        for start in range(0, x.shape[0], rows):
            scores = np.float32(self.scale) * (x[start : start + rows] @ self.weight).toarray()  # [b, C], a small block
            scores[scores == 0] = -np.inf
            yield best_of(scores, k)

    def state(self) -> dict[str, Tensor]:
        weight = self.weight
        return {
            "shape": torch.tensor(weight.shape),
            "length": torch.tensor(self.length),
            "indptr": torch.from_numpy(weight.indptr.astype(np.int64)),
            "indices": torch.from_numpy(weight.indices.astype(np.int32)),
            "data": torch.from_numpy(weight.data.astype(np.float16)),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.length = float(state["length"])
        data = state["data"].float().numpy()
        shape = tuple(state["shape"].tolist())
        self.weight = sparse.csr_array((data, state["indices"].numpy(), state["indptr"].numpy()), shape=shape)

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
    row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return np.sqrt(np.bincount(row, x.data.astype(np.float64) ** 2, x.shape[0]))
