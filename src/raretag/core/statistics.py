"""How often each label occurs: all that a method may know of the data set before training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from raretag.core.errors import UserError


@dataclass(frozen=True, slots=True)
class LabelStatistics:
    """Counts per label. Adding two is merging two shards, or two processes."""

    positives: Tensor  # n_c [C] int64, observed positives
    negatives: Tensor  # [C] int64, observed negatives
    items: int  # N
    cooccurrence: Tensor | None = None  # n_ij [C, C] int64, items with both labels; dense, or sparse for many labels

    def __post_init__(self) -> None:
        if self.positives.shape != self.negatives.shape or self.positives.dim() != 1:
            raise UserError(
                f"positives {tuple(self.positives.shape)} and negatives {tuple(self.negatives.shape)} "
                "must both be vectors with one count for each label"
            )

    @property
    def labels(self) -> int:
        """C, the number of labels."""
        return len(self.positives)

    @property
    def unknown(self) -> Tensor:
        return self.items - self.positives - self.negatives

    def __add__(self, other: LabelStatistics) -> LabelStatistics:
        if self.labels != other.labels:
            raise UserError(f"cannot add statistics of {self.labels} and of {other.labels} labels: two label lists?")
        if self.cooccurrence is None or other.cooccurrence is None:
            together = None
        else:
            together = self.cooccurrence + other.cooccurrence
            together = together.coalesce() if together.is_sparse else together
        return LabelStatistics(
            self.positives + other.positives, self.negatives + other.negatives, self.items + other.items, together
        )

    @classmethod
    def of_counts(cls, positives: list[int] | Tensor, items: int) -> LabelStatistics:
        """Statistics of a fully observed data set of which only the counts are known."""
        counts = torch.as_tensor(positives, dtype=torch.int64)
        return cls(counts, items - counts, items)
