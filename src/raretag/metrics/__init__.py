"""Mergeable sums in, numbers out. Only what was observed counts; what cannot be evaluated is excluded and counted."""

from __future__ import annotations

from raretag.metrics import (
    average_precision,
    bootstrap,
    calibration,
    decisions,
    evaluation,
    grouped,
    hidden,
    partial_truth,
    propensity,
    ranking,
    scored,
    tuning,
)

__all__ = [
    "average_precision",
    "bootstrap",
    "calibration",
    "decisions",
    "evaluation",
    "grouped",
    "hidden",
    "partial_truth",
    "propensity",
    "ranking",
    "scored",
    "tuning",
]
