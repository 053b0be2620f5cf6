"""Methods that stand on another method: "over any row of the table"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raretag.core.catalogue import make_method
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.statistics import LabelStatistics

Base = str | Mapping[str, Any]  # a method's name, or {"name": ..., **options}


def build_base(owner: str, base: Base, statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The method below `owner`. It must be one objective and nothing else, or replacing a slot would lose the rest."""
    options = {"name": base} if isinstance(base, str) else dict(base)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"{owner}: {base!r} is not a method; expected a name or {{name: ..., option: value}}")
    if name == owner:
        raise UserError(f"{owner}.base is '{owner}' again; expected another method")
    method = make_method(name, options, statistics, items=items, seed=seed)
    if any(getattr(type(method), verb) is not getattr(Method, verb) for verb in ("loss", "observe", "end_epoch")):
        raise UserError(f"{owner}: '{name}' has a loss with a term beyond its objective; expected a method without")
    if any(getattr(method, wish) != getattr(Method, wish) for wish in ("head", "branches", "stages")):
        raise UserError(f"{owner}: '{name}' wants a model or stages of its own; expected a method that is a loss alone")
    return method
