"""Undersampling: each epoch sees at most S items of each label.

Duarte et al., "PLM: Partial Label Masking for Imbalanced Multi-Label Classification", CVPR-W 2021, section 3.1.

Each epoch draws min(S, n_c) items of every label without replacement; an item drawn for two labels enters once. Items
without any positive are never drawn. Such an epoch is shorter than the data set, and methods compare by steps, not by
epochs: with `match_steps` an epoch goes on with further draws until it has as many items as the data set.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError


class Undersample:
    def __init__(self, positives: csr_array, *, per_label: int = 500, match_steps: bool = False, seed: int = 0) -> None:
        if per_label < 1:
            raise UserError(f"undersample.per_label is a number of items and must be 1 or more, got {per_label}")
        self.by_label, self.per_label, self.seed = positives.tocsc(), per_label, seed
        self.length = positives.shape[0] if match_steps and positives.nnz else 0  # 0: what one draw gives

    def epoch(self, number: int) -> Tensor:
        draws, drawn = [self._draw(number, 0)], 0
        while (drawn := drawn + len(draws[-1])) < self.length:
            draws.append(self._draw(number, len(draws)))
        rows = torch.cat(draws)
        return rows[: self.length] if self.length else rows

    def _draw(self, number: int, draw: int) -> Tensor:
        chosen = np.zeros(self.by_label.shape[0], dtype=bool)
        for label in range(self.by_label.shape[1]):
            items = self.by_label.indices[self.by_label.indptr[label] : self.by_label.indptr[label + 1]]
            order = chance.permutation(len(items), self.seed, number, 2 * draw, label).numpy()
            chosen[items[order[: self.per_label]]] = True
        rows = torch.from_numpy(np.flatnonzero(chosen))
        return rows[chance.permutation(len(rows), self.seed, number, 2 * draw + 1)]
