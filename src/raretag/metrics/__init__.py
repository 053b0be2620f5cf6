"""Mergeable sums in, numbers out. Only what was observed counts; what cannot be evaluated is excluded and counted."""

from __future__ import annotations

from raretag.metrics import (
    average_precision,
    calibration,
    decisions,
    evaluation,
    grouped,
    hidden,
    propensity,
    ranking,
    scored,
    tuning,
)

__all__ = [
    "average_precision",
    "calibration",
    "decisions",
    "evaluation",
    "grouped",
    "hidden",
    "propensity",
    "ranking",
    "scored",
    "tuning",
]
