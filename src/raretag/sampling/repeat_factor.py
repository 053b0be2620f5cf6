"""Repeat-factor sampling: an item comes as often as its rarest label deserves.

Gupta et al., "LVIS: A Dataset for Large Vocabulary Instance Segmentation", CVPR 2019, section 6.

    r_c = max(1, sqrt(threshold / f_c)),  f_c = n_c / N        r_i = max over the positives of item i

The paper has threshold = 0.001, for labels of one item in a thousand; ours is 0.1, since rare labels of small sets are
more frequent than that. An item comes floor(r_i) times, and once more with probability
r_i - floor(r_i), drawn anew each epoch.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError


class RepeatFactor:
    def __init__(self, positives: csr_array, *, threshold: float = 0.1, seed: int = 0) -> None:
        if not 0 < threshold <= 1:
            raise UserError(f"repeat_factor.threshold is a share of items and must lie in (0, 1], got {threshold}")
        items = positives.shape[0]
        share = np.maximum(np.bincount(positives.indices, minlength=positives.shape[1]), 1) / items
        of_label = np.maximum(1.0, np.sqrt(threshold / share))  # r_c
        factors = np.ones(items)
        np.maximum.at(factors, np.repeat(np.arange(items), np.diff(positives.indptr)), of_label[positives.indices])
        self.factors, self.seed = torch.from_numpy(factors), seed  # r_i [N]

    def epoch(self, number: int) -> Tensor:
        whole = self.factors.floor()
        once_more = chance.uniform(self.seed, number, 0, torch.arange(len(whole))) < self.factors - whole
        rows = torch.repeat_interleave(torch.arange(len(whole)), whole.long() + once_more)
        return rows[chance.permutation(len(rows), self.seed, number, 1)]
