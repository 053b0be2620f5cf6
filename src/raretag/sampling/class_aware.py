r"""Class-aware sampling (RS): choose a label, then an item that has it.

Shen et al., "Relay Backpropagation", ECCV 2016; as used by Wu et al., "Distribution-Balanced Loss", ECCV 2020.

Labels take turns in rounds: each round visits every label once, in a new order, and each visit takes `run` items from
the label's own shuffled cycle. Cycles go on from epoch to epoch, so no item of a frequent label waits for ever.

An epoch has max_c n_c * C / reduce items, or as many as the training set if `reduce` is None, so that methods with and
without this sampler take the same number of steps. The share of label i among them is

    (1)  p_hat_i = 1/C sum_j n_ij / n_j

Departs from the authors' code: the order follows from (seed, epoch) alone, where theirs reseeds the global generators
and starts every run with the same order. Labels without a positive are left out; theirs cannot have any.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError


class ClassAware:
    """Labels take turns, and each turn takes `run` items that have the label.

    positives   [N, C] scipy matrix of the observed positives: `labels.sparse()`
    reduce      an epoch has max_c n_c * C / reduce items; None: as many as there are
    seed        of all draws

    >>> import raretag
    >>> labels = raretag.LabelStore.from_lists([["cat"], ["cat"], ["cat", "dog"]])
    >>> raretag.sampling.ClassAware(labels.sparse(), reduce=1, run=1).epoch(0)
    tensor([0, 2, 2, 2, 1, 2])
    """

    def __init__(self, positives: csr_array, *, reduce: float | None = 4.0, run: int = 3, seed: int = 0) -> None:
        if (reduce is not None and reduce <= 0) or run < 1:
            raise UserError(f"class_aware needs reduce > 0 and run >= 1, got reduce={reduce}, run={run}")
        by_label = positives.tocsc()
        counts = np.diff(by_label.indptr)
        self.labels = np.flatnonzero(counts)  # [C'] labels with a positive
        if not len(self.labels):
            raise UserError("class-aware sampling needs positives, but no item of the training set has any label")
        self.starts, self.counts = by_label.indptr[self.labels], counts[self.labels]
        self.items_by_label = by_label.indices
        items, labels = positives.shape
        self.length = items if reduce is None else max(1, int(counts.max() * labels / reduce))
        self.run, self.seed = run, seed

    def epoch(self, number: int) -> Tensor:
        per_round = len(self.labels) * self.run
        first, last = number * self.length, (number + 1) * self.length  # positions in the endless stream
        rounds = np.arange(first // per_round, -(-last // per_round))
        order = chance.permutations(len(self.labels), rounds[0], rounds[-1] + 1, self.seed, 0)  # [R, C']

        drawn = np.empty((len(self.labels), len(rounds), self.run), dtype=np.int64)
        for label in range(len(self.labels)):
            drawn[label] = self._visits(label, rounds[0] * self.run, (rounds[-1] + 1) * self.run).reshape(-1, self.run)
        stream = drawn[order, np.arange(len(rounds))[:, None]].reshape(-1)  # [R, C', run]
        begin = first - rounds[0] * per_round
        return torch.from_numpy(stream[begin : begin + self.length])

    def _visits(self, label: int, start: int, stop: int) -> NDArray[np.int64]:
        """What the label's own cycle gives from its `start`-th to its `stop`-th visit."""
        count = int(self.counts[label])
        cycles = chance.permutations(count, start // count, -(-stop // count), self.seed, 1, int(self.labels[label]))
        begin = start - start // count * count
        places = cycles.reshape(-1)[begin : begin + stop - start]
        items: NDArray[np.int64] = self.items_by_label[self.starts[label] : self.starts[label] + count]
        return items[places]
