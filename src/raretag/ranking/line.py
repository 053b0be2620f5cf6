"""Sparse linear models, one per label: products that are never dense, the best labels by them, and their file format.

An item shares features with some labels, and none with most. Only the former are scored one by one; the score of the
latter is their bias, so only the few with the highest bias are considered. The cost of an item is therefore the number
of weights of its features, however many labels there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.ranker import NONE, Ranked

Floats = NDArray[np.float32]
PRODUCTS = 2**23  # of one weight and one feature, that are added up at a time
SPARE = 200  # labels with a high bias that are looked at beyond k


def product_rows(x: sparse.csr_array, weight: sparse.csr_array) -> Iterator[tuple[int, NDArray[np.int32], Floats]]:
    """Row number, labels and sums of x W, for x [B, D] and W [D, C]: only labels that share a feature with the row."""
    work = np.zeros(x.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(row_numbers(x), np.diff(weight.indptr)[x.indices], x.shape[0]), out=work[1:])
    start = 0
    while start < x.shape[0]:
        stop = max(start + 1, int(np.searchsorted(work, work[start] + PRODUCTS, side="right")) - 1)
        block = x[start:stop] @ weight
        for row in range(stop - start):
            part = slice(block.indptr[row], block.indptr[row + 1])
            yield start + row, block.indices[part], block.data[part]
        start = stop


def best_by_lines(x: sparse.csr_array, weight: sparse.csr_array, bias: Floats | None, k: int) -> Ranked:
    """The k best labels by x W + b, for x [B, D]; without b, labels whose score is 0 are left out.

    >>> x = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0]], np.float32))
    >>> weight = sparse.csr_array(np.array([[0.5, 0.0, 2.0], [1.0, 1.0, 1.0]], np.float32))
    >>> best_by_lines(x, weight, np.array([0.0, 1.0, 0.0], np.float32), 2).labels
    array([[2, 1],
           [1, 0]], dtype=int32)
    """
    labels = np.full((x.shape[0], k), NONE, np.int32)
    scores = np.full((x.shape[0], k), -np.inf, np.float32)
    if bias is not None:
        often = np.argsort(-bias, kind="stable")[: k + SPARE].astype(np.int32)
        shared = np.zeros(len(bias), np.bool_)
    for row, found, score in product_rows(x, weight):
        if bias is None:
            found, score = found[score != 0], score[score != 0]
        else:
            shared[found] = True
            others = often[~shared[often]]
            if len(others) < k and len(often) < len(bias):  # rare: most of the frequent ones are scored already
                others = np.flatnonzero(~shared).astype(np.int32)
            shared[found] = False
            score = np.concatenate([score + bias[found], bias[others]])
            found = np.concatenate([found, others])
        if len(found) > k:
            chosen = np.argpartition(-score, k - 1)[:k]
            found, score = found[chosen], score[chosen]
        order = np.lexsort((found, -score))
        labels[row, : len(order)], scores[row, : len(order)] = found[order], score[order]
    return Ranked(labels, scores)


def largest_of_rows(matrix: sparse.csr_array, most: int) -> sparse.csr_array:
    """At most so many entries of each row, the largest without their sign; of equal ones, the first."""
    keep = matrix.data != 0
    for row in np.flatnonzero(np.diff(matrix.indptr) > most):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        keep[part][np.argsort(-np.abs(matrix.data[part]), kind="stable")[most:]] = False
    ends = np.concatenate([[0], np.cumsum(keep)])[matrix.indptr]
    return sparse.csr_array((matrix.data[keep], matrix.indices[keep], ends), shape=matrix.shape)


def row_numbers(x: sparse.csr_array) -> NDArray[np.int64]:
    """Of each stored entry."""
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))


def packed(weight: sparse.csr_array) -> dict[str, Tensor]:
    """For safetensors: six bytes per entry."""
    return {
        "shape": torch.tensor(weight.shape),
        "indptr": torch.from_numpy(weight.indptr.astype(np.int64)),
        "indices": torch.from_numpy(weight.indices.astype(np.int32)),
        "data": torch.from_numpy(weight.data.astype(np.float16)),
    }


def unpacked(state: Mapping[str, Tensor]) -> Any:
    """The inverse of `packed`."""
    data, shape = state["data"].float().numpy(), tuple(state["shape"].tolist())
    return sparse.csr_array((data, state["indices"].numpy(), state["indptr"].numpy()), shape=shape)
