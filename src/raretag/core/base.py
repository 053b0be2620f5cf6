"""Methods that stand on another method: "over any row of the table"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raretag.core.catalogue import build_method
from raretag.core.errors import UserError
from raretag.core.method import Method
from raretag.core.statistics import LabelStatistics

Base = str | Mapping[str, Any]  # a method's name, or {"name": ..., **options}


def build_base(owner: str, base: Base, statistics: LabelStatistics, *, items: int, seed: int) -> Method:
    """The method below `owner`. It must be one objective and nothing else, or replacing a slot would lose the rest."""
    options = {"name": base} if isinstance(base, str) else dict(base)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"{owner}.base is {base!r}; expected a method's name or a mapping with 'name' and its options")
    if name == owner:
        raise UserError(f"{owner}.base is '{owner}' again; expected another method")
    method = build_method(name, statistics, items=items, seed=seed, **options)
    if any(getattr(type(method), verb) is not getattr(Method, verb) for verb in ("loss", "observe", "end_epoch")):
        raise UserError(f"{owner}.base is '{name}', whose loss has a term beyond its objective; expected one without")
    return method
