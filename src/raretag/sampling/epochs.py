"""Orders in which each epoch is drawn for itself: every item once, few items of each label, rare labels repeated."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError


class Uniform:
    """Every item once per epoch, in a new order each time.

    >>> import raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat"], ["cat", "dog"]])
    >>> raretag.sampling.Uniform(labels.sparse(), seed=0).epoch(0)
    tensor([2, 0, 1])
    """

    def __init__(self, positives: csr_array, *, seed: int = 0) -> None:
        self.items, self.seed = positives.shape[0], seed

    def epoch(self, number: int) -> Tensor:
        return chance.permutation(self.items, self.seed, number)


class Undersample:
    """Undersampling: each epoch has at most S items of each label.

    Duarte et al., "PLM: Partial Label Masking for Imbalanced Multi-Label Classification", CVPR-W 2021, section 3.1.

    Each epoch draws min(S, n_c) items of every label without replacement, S = `per_label`; an item drawn for two labels
    enters once. Items without any positive are never drawn. Such an epoch is shorter than the data set, and methods
    compare by steps, not by epochs: with `match_steps` an epoch goes on with further draws until it has as many items
    as the data set.

    >>> import raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat"], ["cat", "dog"]])
    >>> raretag.sampling.Undersample(labels.sparse(), per_label=1).epoch(1)
    tensor([0, 2])
    """

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


class RepeatFactor:
    """Repeat-factor sampling: an item is repeated according to its rarest label.

    Gupta et al., "LVIS: A Dataset for Large Vocabulary Instance Segmentation", CVPR 2019, section 6.

        r_c = max(1, sqrt(threshold / f_c)),  f_c = n_c / N        r_i = max over the positives of item i

    The paper has threshold = 0.001, for labels of one item in a thousand; ours is 0.1, since rare labels of small sets
    are more frequent than that. An item comes floor(r_i) times, and once more with probability r_i - floor(r_i), drawn
    anew each epoch.

    >>> import raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat"], ["cat", "dog"]])
    >>> raretag.sampling.RepeatFactor(labels.sparse(), threshold=1.0).factors
    tensor([1.0000, 1.0000, 1.7321], dtype=torch.float64)
    """

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
