"""Finished parts of a fit, so that a run that was stopped need not compute them again.

The name of a part is a hash of all that it hangs on (data, labels, settings, the version of this package): whatever
changes, an old part is never taken for a new one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor, uint8

from raretag import __version__


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
