"""The contract of learners that need no steps: they see all feature vectors at once and fill a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from raretag.core.listener import Listener
from raretag.core.targets import Targets

Features = Callable[[], Iterator[tuple[Tensor, Targets]]]  # goes through this process's share of the training items


class Solver(ABC):
    """Fits the head of a model whose backbone stays as it is. Made of options alone, as a scikit-learn estimator is."""

    head: str = "linear"  # the head that `solve` fills
    cross_fits: bool = False  # `solve` gives out-of-fold logits, so no items need be held out for validation

    @abstractmethod
    def solve(self, features: Features, head: nn.Module, listener: Listener) -> Tensor | None:
        """Fill the parameters of `head` from feature vectors [N, D] and their labels; the same on every process.

        Returns logits [N, C] of the training items by solutions that were not fitted to them, on the scale of the final
        solution, where the solver has such: thresholds and calibration can be fitted to them. Else None.
        """

    @abstractmethod
    def vital_signs(self) -> dict[str, float]:
        """Numbers for the log, such as the strength that was chosen."""

    def learned(self) -> dict[str, Any]:
        """What a later run may want to know, ready for JSON; it goes into the record."""
        return {}
