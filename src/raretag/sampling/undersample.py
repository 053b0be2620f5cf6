"""Undersampling: each epoch sees at most S items of each label.

Duarte et al., "PLM: Partial Label Masking for Imbalanced Multi-Label Classification", CVPR-W 2021, section 3.1.

Each epoch draws min(S, n_c) items of every label without replacement; an item drawn for two labels enters once. Items
without any positive are never drawn. Epochs are shorter than the data set: compare methods by steps, not by epochs.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError


class Undersample:
    def __init__(self, positives: csr_array, *, per_label: int = 500, seed: int = 0) -> None:
        if per_label < 1:
            raise UserError(f"undersample.per_label is a number of items and must be 1 or more, got {per_label}")
        self.by_label, self.per_label, self.seed = positives.tocsc(), per_label, seed

    def epoch(self, number: int) -> Tensor:
        chosen = np.zeros(self.by_label.shape[0], dtype=bool)
        for label in range(self.by_label.shape[1]):
            items = self.by_label.indices[self.by_label.indptr[label] : self.by_label.indptr[label + 1]]
            order = chance.permutation(len(items), self.seed, number, 0, label).numpy()
            chosen[items[order[: self.per_label]]] = True
        rows = torch.from_numpy(np.flatnonzero(chosen))
        return rows[chance.permutation(len(rows), self.seed, number, 1)]
