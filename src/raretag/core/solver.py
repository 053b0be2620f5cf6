"""The contract of learners that need no steps: they see all feature vectors at once and fill a head.

Their fits are made of parts, such as folds and blocks of labels (`mapped`). Others may compute them, and a run that was
stopped keeps those that are finished: the name of a part is a hash of all that it hangs on (data, labels, settings, the
version of this package), so an old part is never taken for a new one.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn, uint8

from raretag import __version__
from raretag.core import registry
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
    if not is_keeping():
        return mapper(function, shared, parts)
    return kept_all(
        lambda missing: mapper(function, shared, [parts[number] for number in missing]),
        [name_of(function.__qualname__, Shared(shared), part) for part in parts],
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


class Store(Protocol):
    """Where parts are: tensors and plain values, in tuples, lists and dictionaries."""

    def find(self, name: str) -> Any:
        """What was kept under a name; None if nothing was, or if it was damaged since."""

    def keep(self, name: str, value: Any, seconds: float) -> None:
        """`seconds`: what it took to make. A store may find a part too cheap to keep."""


@dataclass(frozen=True)
class Shared:
    """What many parts hang on: it is large, and hashed once."""

    value: Any


_STORE: ContextVar[Store | None] = ContextVar("store", default=None)
_HASHED: ContextVar[dict[int, tuple[Any, str]]] = ContextVar("hashed")  # by the number of an object, which is held


@contextmanager
def keeping(store: Store | None) -> Iterator[None]:
    before, hashed = _STORE.set(store), _HASHED.set({})
    try:
        yield
    finally:
        _STORE.reset(before)
        _HASHED.reset(hashed)


def is_keeping() -> bool:
    return _STORE.get() is not None


def kept(make: Callable[[], Any], *content: Any) -> Any:
    """What `make` gives, or what it gave before the run was stopped. `content` is all that this hangs on."""
    return make() if not is_keeping() else next(kept_all(lambda missing: (make() for _ in missing), [name_of(content)]))


def kept_all(make: Callable[[list[int]], Iterator[Any]], names: list[str]) -> Iterator[Any]:
    """The same for several parts; `make` gives those of the numbers that it gets, in their order."""
    store = _STORE.get()
    assert store is not None
    found = [store.find(name) for name in names]
    made = make([number for number, value in enumerate(found) if value is None])
    for name, value in zip(names, found, strict=True):
        if value is None:
            started = time.perf_counter()
            value = next(made)
            store.keep(name, value, time.perf_counter() - started)
        yield value


def name_of(*content: Any) -> str:
    digest = hashlib.sha256(__version__.encode())
    _add(digest, content)
    return digest.hexdigest()


def _add(digest: Any, thing: Any) -> None:
    """Values go by what they hold, objects by their attributes; each with its kind, so that 1 and True differ."""
    digest.update(f"{type(thing).__qualname__} ".encode())
    if isinstance(thing, Shared):
        hashed = _HASHED.get()
        if id(thing.value) not in hashed:
            hashed.clear()  # one fit at a time
            hashed[id(thing.value)] = thing.value, name_of(thing.value)
        digest.update(hashed[id(thing.value)][1].encode())
    elif isinstance(thing, Tensor):
        digest.update(f"{thing.dtype} {tuple(thing.shape)} ".encode())
        digest.update(thing.detach().cpu().contiguous().reshape(-1).view(uint8).numpy())
    elif isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype} {thing.shape} ".encode())
        digest.update(np.ascontiguousarray(thing).data)
    elif hasattr(thing, "indptr"):  # a sparse matrix, which also remembers what it was asked
        _add(digest, [thing.shape, thing.indptr, thing.indices, thing.data])
    elif isinstance(thing, (list, tuple)):
        digest.update(f"{len(thing)} ".encode())
        for one in thing:
            _add(digest, one)
    elif isinstance(thing, dict):
        _add(digest, list(thing.items()))
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        _add(digest, vars(thing))
    else:
        digest.update(f"{thing!r} ".encode())
