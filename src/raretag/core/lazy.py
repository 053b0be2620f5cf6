"""What is loaded on first use: the names that a package offers, and packages that not everyone has installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from raretag.core.errors import UserError


def exports(
    package: str,
    homes: Mapping[str, str] | None = None,
    *,
    targets: Iterable[str] = (),
    modules: Mapping[str, Iterable[str]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, from any of three ways to write down what it offers.

    homes     name -> "module:attribute" or "module"
    targets   "module:attribute" each, offered by the name of the attribute: the values of a REGISTRY
    modules   module -> the names that are offered of it

    >>> __getattr__, __dir__ = exports("example", {"maths": "math"}, targets=["math:sqrt"], modules={"os": ["sep"]})
    >>> __getattr__("sqrt")(4.0), __dir__()
    (2.0, ['maths', 'sep', 'sqrt'])
    """
    found = dict(homes or {}) | {target.partition(":")[2]: target for target in targets}
    found |= {name: f"{module}:{name}" for module, names in (modules or {}).items() for name in names}

    def lookup(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module, _, attribute = found[name].partition(":")
        loaded = importlib.import_module(module)
        return getattr(loaded, attribute) if attribute else loaded

    return lookup, lambda: sorted(found)


def needed(package: str, extra: str, purpose: str) -> Any:
    """An optional package, or one line that says what to install.

    >>> needed("json", "none", "An example").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise UserError(f"{purpose} needs {name} ({error}): pip install 'raretag[{extra}]'") from None
