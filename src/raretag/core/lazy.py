"""Names that a package offers and loads on first use: `import raretag` must not wait for torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; `homes` maps what it offers to "module:attribute" or "module".

    >>> __getattr__, __dir__ = exports("example", {"sqrt": "math:sqrt", "math": "math"})
    >>> __getattr__("sqrt")(4.0), __dir__()
    (2.0, ['math', 'sqrt'])
    """

    def lookup(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module, _, attribute = homes[name].partition(":")
        found = importlib.import_module(module)
        return getattr(found, attribute) if attribute else found

    return lookup, lambda: sorted(homes)
