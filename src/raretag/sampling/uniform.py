"""Every item once an epoch, in a new order each time."""

from __future__ import annotations

from scipy.sparse import csr_array
from torch import Tensor

from raretag.core import chance


class Uniform:
    def __init__(self, positives: csr_array, *, seed: int = 0) -> None:
        self.items, self.seed = positives.shape[0], seed

    def epoch(self, number: int) -> Tensor:
        return chance.permutation(self.items, self.seed, number)
