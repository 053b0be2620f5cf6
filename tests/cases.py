"""One row for each method: its formula in plain Python numbers, its settings, and what it turns into (see `table.py`)."""

from __future__ import annotations

from math import log

from table import CASES, Label, Same, case, cross_entropy

__all__ = ["CASES"]

BCE = "binary_cross_entropy"
IGNORE = {"unknown": "ignore"}


@case(BCE, {"unknown": "negative"}, {"reduce": "rows"}, {"reduce": "sum"}, {"reduce": "kept"}, unknown="ignore")
def _(at: Label) -> float:
    return cross_entropy(at.p, at.y)


@case("assume_negative", same=[Same({}, BCE, {"unknown": "negative"})], unknown=None)
def _(at: Label) -> float:
    return cross_entropy(at.p, at.y)


@case(
    "focal",
    IGNORE,
    {"gamma": 0.5, "balance": 2.0},
    {"alpha": 0.25},
    {"detach_focus": True},
    same=[Same({"gamma": 0.0, **IGNORE}, BCE), Same({"gamma": 0.0, "alpha": 0.5, **IGNORE}, BCE, scale=0.5)],
)
def _(at: Label, gamma=2.0, balance=1.0, alpha=None, detach_focus=False) -> float:
    p_t = at.p if at.y else 1 - at.p
    side = 1.0 if alpha is None else alpha if at.y else 1 - alpha
    return -balance * side * (1 - p_t) ** gamma * log(p_t)
