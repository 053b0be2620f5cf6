"""Ridge regression of very many labels from sparse rows, with one inverse for all of them.

With rows X [N, D], targets Y [N, C] and strength q, for the `largest` most frequent columns::

    P = inverse(X'X + q I)                                     [K, K]
    W = P X'Y = (X P)'Y                                        K columns at once
    z_i without item i = ((X W)_i - h_i y_i) / (1 - h_i),      h_i = x_i P x_i

Each of the other columns is fitted by itself: W_f = (X'Y)_f / (|X_f|^2 + q). They have few items, so q shrinks them to
little, and what they have in common with others matters less.

W is never whole in memory: X P is made for a block of columns at a time, and only the entries of a pattern are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from raretag.ranking.line import Floats

NUMBERS = 2**22  # of a dense block


class Ridge:
    """The inverse for rows [N, D] float32."""

    def __init__(self, x: sparse.csr_array, strength: float, largest: int) -> None:
        self.strength = strength
        often = np.argsort(-np.bincount(x.indices, minlength=x.shape[1]), kind="stable")
        self.common = np.sort(often[:largest])  # columns that are solved together
        self.rows = sparse.csr_array(x[:, self.common])  # [N, K]
        self.squares = np.bincount(x.indices, x.data.astype(np.float64) ** 2, x.shape[1])  # |X_f|^2 [D]
        self.inverse = inverse_of_squares(self.rows, strength)

    def own(self, some: NDArray[np.int64]) -> Floats:
        """h [s] of these items: how much the fit follows a target of their own."""
        rows = self.rows[some]
        found = np.empty(len(some), np.float32)
        for part in np.array_split(np.arange(len(some)), len(some) * len(self.common) // NUMBERS + 1):
            found[part] = (rows[part] * (rows[part] @ self.inverse)).sum(1)
        return found

    def held_out(self, some: NDArray[np.int64], targets: sparse.csr_array) -> Floats:
        """[s, C] what is predicted for these items without them, by the common columns."""
        hat = self.rows @ np.ascontiguousarray((self.rows[some] @ self.inverse).T)  # [N, s]: X P x_i
        place = (some, np.arange(len(some)))
        own = hat[place]
        hat[place] = 0  # takes h_i y_i away
        return np.asarray((targets.T @ hat).T / np.maximum(1 - own, 1e-3)[:, None], np.float32)

    def weights(
        self, targets: sparse.csr_array, pattern: sparse.csr_array, progress: Callable[[float], None] = lambda _: None
    ) -> Floats:
        """The entries of W where `pattern`, X'Y [D, C] by rows, has some, in its order."""
        found = pattern.data / np.repeat(self.squares + self.strength, np.diff(pattern.indptr)).astype(np.float32)
        by_label = sparse.csr_array(targets.T)  # [C, N]
        size = block_size(*targets.shape)
        for start in range(0, len(self.common), size):
            block = self.common[start : start + size]
            moved = self.rows @ np.ascontiguousarray(self.inverse[:, start : start + size])  # [N, b]
            weight = by_label @ moved  # [C, b]
            for place, column in enumerate(block):
                part = slice(pattern.indptr[column], pattern.indptr[column + 1])
                found[part] = weight[pattern.indices[part], place]
            progress(min(1.0, (start + size) / len(self.common)))
        return np.asarray(found, np.float32)


def inverse_of_squares(x: sparse.csr_array, strength: float) -> Floats:
    """(X'X + q I)^-1 [K, K] for rows [N, K]; K x K numbers are in memory once."""
    columns = x.shape[1]
    found = np.empty((columns, columns), np.float32)
    for start in range(0, columns, 500):  # as a sparse matrix the whole product takes more than a dense one
        found[:, start : start + 500] = (x.T @ x[:, start : start + 500]).toarray()
    found.ravel()[:: columns + 1] += strength
    by_columns = torch.from_numpy(found).mT  # symmetric, and as LAPACK wants it: changed in place
    torch.linalg.cholesky(by_columns, out=by_columns)
    torch.cholesky_inverse(by_columns, out=by_columns)
    return found


def block_size(items: int, labels: int) -> int:
    """How many columns of N + C numbers are made at a time; fewer than 16 would waste what is read for them."""
    return max(16, NUMBERS // (items + labels))


def masked_line(x: sparse.csr_array, target: Floats, strength: float, most_steps: int = 30) -> Floats:
    """w [D] of one label from the rows [n, D] where it is known: (X'X + q I) w = X't by conjugate gradients."""
    left = (x.T @ target).astype(np.float64)
    weight, direction, size = np.zeros_like(left), left.copy(), float(left @ left)
    goal = 1e-8 * size
    for _ in range(most_steps):
        if size <= goal:
            break
        turned = x.T @ (x @ direction) + strength * direction
        far = size / float(direction @ turned)
        weight += far * direction
        left -= far * turned
        size, before = float(left @ left), size
        direction = left + size / before * direction
    return np.asarray(weight, np.float32)
