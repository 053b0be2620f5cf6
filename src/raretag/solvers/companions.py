r"""Labels that come together help each other: scores are moved by those of the labels that go with them.

With n_c positives of label c among N items, co_cj items that have both c and j, and pi_j = n_j / N::

    P_cj = (co_cj + pi_j) / (n_c + 1) - pi_j        how much more frequent j is where c is; shrunk by one item
    P_cc = 0
    score_c <- score_c + a sum_j P_cj score_j

As P_cj = co_cj / (n_c + 1) - pi_j n_c / (n_c + 1), P is a matrix of the pairs that occur and a product of two vectors:
it is never written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


class Companions:
    """P of the positives [N, C] bool of some items."""

    def __init__(self, positive: Tensor) -> None:
        from scipy import sparse

        y = sparse.csr_array(positive.numpy().astype(np.float32))
        count = positive.sum(0).double()
        self.shrunk = (count / (count + 1)).float()  # [C]
        self.frequency = (count / max(len(positive), 1)).float()  # pi [C]
        pairs: Any = (sparse.diags_array((1 / (count + 1)).float().numpy()) @ (y.T @ y)).tocsr()
        own = self.shrunk * self.frequency - torch.from_numpy(pairs.diagonal())  # so that P_cc is 0
        self.pairs = sparse.csr_array(pairs + sparse.diags_array(own.numpy()), dtype=np.float32)

    def of(self, rows: Tensor) -> Tensor:
        """P rows [C, K], of anything that has a row for each label."""
        known = torch.from_numpy(self.pairs @ np.ascontiguousarray(rows.numpy()))
        return known - self.shrunk[:, None] * (self.frequency @ rows)


def held_out_companions(scores: Tensor, positive: Tensor, fold: Tensor) -> Tensor:
    """[N, C] sum_j P_cj score_j of each item, with a P that knows nothing of the item's fold."""
    moved = torch.zeros_like(scores)
    for one in fold.unique():
        rows = (fold == one).nonzero().flatten()
        moved[rows] = Companions(positive[fold != one]).of(scores[rows].T).T
    return moved
