"""The contract of learners that need no steps: they see all feature vectors at once and fill a head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from raretag.core import keeping, registry
from raretag.core.listener import Listener
from raretag.core.targets import Targets

Features = Callable[[], Iterator[tuple[Any, Targets]]]  # goes through this process's share of the training items
# f(shared, part) for each part, in their order. `shared` is large and the same for many calls, parts are small.
Mapper = Callable[[Callable[[Any, Any], Any], Any, Sequence[Any]], Iterator[Any]]


def one_after_another(function: Callable[[Any, Any], Any], shared: Any, parts: Sequence[Any]) -> Iterator[Any]:
    return (function(shared, part) for part in parts)


_MAPPER: ContextVar[Mapper] = ContextVar("mapper", default=one_after_another)


def mapped(function: Callable[[Any, Any], Any], shared: Any, parts: Sequence[Any]) -> Iterator[Any]:
    """Parts of a fit that do not depend on each other, such as folds and blocks of labels; `function` has a name.

    They are kept, if the run keeps what is finished, so everything that they hang on is in `shared` and the part.
    """
    mapper = _MAPPER.get()
    if not keeping.is_keeping():
        return mapper(function, shared, parts)
    return keeping.kept_all(
        lambda missing: mapper(function, shared, [parts[number] for number in missing]),
        [keeping.name_of(function.__qualname__, keeping.Shared(shared), part) for part in parts],
    )


@contextmanager
def mapping_with(mapper: Mapper) -> Iterator[None]:
    """While this lasts, solvers leave such parts to someone else: the workers of a cluster, say."""
    before = _MAPPER.set(mapper)
    try:
        yield
    finally:
        _MAPPER.reset(before)


class Solver(ABC):
    """Fits the head of a model whose backbone stays as it is. Made of options alone, as a scikit-learn estimator is."""

    head: str = "linear"  # the head that `solve` fills
    takes_sparse: bool = False  # rows of features may come as scipy's CSR, not as tensors, where the data is sparse
    blocks: Mapping[str, range] = MappingProxyType({})  # columns of each kind, where there are several; set by the run
    leaves_out: bool = False  # what stays unknown where negatives are known is not learned from
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


def solver_named(name: str) -> type[Solver] | None:
    """The solver that the name of a method stands for; None for a method that learns by steps."""
    if ":" not in name and registry.room_of("methods", name) != "solvers":
        return None
    found = registry.find("methods", name)
    return found if isinstance(found, type) and issubclass(found, Solver) else None
