r"""Ridge regression of all labels on a kernel of the items, with every fold left out exactly.

Rows are divided by their root mean square length, so rows that all have the same length get length 1::

    k(x, x') = exp(-|x - x'|)
    H        k of all pairs of items, centred and divided by its mean diagonal
    A        (H + l I)^-1                          one inverse for all labels
    a_c      A (y_c - mean y_c)                    0 for what is not counted
    z_c(x)   sum_i a_ic (k(x, x_i) - mean_j k(x_j, x_i)) / mean diagonal          as the a_ic sum to 0
    z_F      y_F - (A_FF)^-1 a_F                   what the items of a fold F would get if they were left out

The last line is exact for a given H and mean. These are taken from all items, so a fold has a small influence on its
own scores, as much as one item in N has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg
from torch import Tensor

from raretag.models.heads.thin import is_thin

MOST_ITEMS = 6_000  # time grows with their cube, memory with their square: 0.3 GB
MOST_NUMBERS = 2**26  # that a model keeps of the items: 256 MB
Floats = NDArray[np.float32]


def too_large(items: int, columns: int, filled: int) -> str:
    """Why there is no kernel for so many; empty if there is one. `filled`: entries of the features that are not 0."""
    if items > MOST_ITEMS:
        return f"more than {MOST_ITEMS:,} items"
    kept = 3 * filled if is_thin(filled, items, columns) else items * columns
    return f"a model would keep {kept:,} numbers, more than {MOST_NUMBERS:,}" if kept > MOST_NUMBERS else ""


def squared_distances(x: Any) -> Floats:
    """[N, N] of the rows of a tensor or a sparse matrix."""
    if isinstance(x, Tensor):
        rows = x.float() - x.float().mean(0)  # distances stay, and large means do not swallow them
        inner: Floats = (rows @ rows.T).numpy()
    else:
        inner = (x @ x.T).toarray().astype(np.float32)
    own = inner.diagonal().copy()
    inner *= -2
    inner += own[:, None]
    inner += own[None]
    np.maximum(inner, 0, out=inner)
    np.fill_diagonal(inner, 0)
    return inner


class KernelRidge:
    """The kernel of some items; `length` is the unit of their rows."""

    def __init__(self, x: Any, length: float) -> None:
        h = squared_distances(x)
        h /= length**2
        np.sqrt(h, out=h)
        np.exp(-h, out=h)
        self.mean: Floats = h.mean(0, dtype=np.float64).astype(np.float32)  # [N] of k(x_j, x_i) over j
        middle = self.mean.mean(dtype=np.float64)
        self.diagonal = float(max(1 - middle, 1e-12))
        h -= self.mean[None]
        h -= self.mean[:, None]
        h += np.float32(middle)
        h /= np.float32(self.diagonal)
        self.centred = h

    def factor(self, stiffness: float) -> Floats:
        """The lower triangle of the Cholesky factor of H + l I, in the order of LAPACK."""
        raised = np.array(self.centred, order="F")
        raised[np.diag_indices(len(raised))] += stiffness
        factor, failed = linalg.lapack.spotrf(raised, lower=1, overwrite_a=1)
        if failed:
            raise ArithmeticError(f"the kernel of {len(raised)} items is not positive definite")
        found: Floats = factor
        return found

    def solved(self, y: Tensor, stiffness: float, fold: Tensor) -> tuple[Tensor, Tensor]:
        """a [N, C] of centred labels y [N, C], and z [N, C] of each item if its fold [N] is left out."""
        inverse, _ = linalg.lapack.spotri(self.factor(stiffness), lower=1, overwrite_c=1)  # its lower triangle
        a = linalg.blas.ssymm(1.0, inverse, y.numpy(), lower=1)
        z = y.numpy().copy()
        for one in fold.unique():
            rows = (fold == one).nonzero().flatten().numpy()
            block = inverse[np.ix_(rows, rows)]
            z[rows] -= linalg.solve(block, a[rows], assume_a="pos", lower=True, check_finite=False)
        return torch.from_numpy(np.ascontiguousarray(a)), torch.from_numpy(z)


def centred_labels(positive: Tensor, counted: Tensor | None) -> Tensor:
    """y less its mean over what is counted [N, C]; 0 for what is not."""
    y = positive.float()
    if counted is None:
        return y - y.mean(0)
    return (y - (y * counted).sum(0) / counted.sum(0).clamp(min=1)) * counted
