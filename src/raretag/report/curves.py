"""Precision-recall curves and histograms of probabilities, small enough to be embedded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raretag.report.study import GROUPS, Study

BINS = 20
POINTS = 48  # of a curve


def precision_recall(
    p: NDArray[np.float64], positive: NDArray[np.bool_], observed: NDArray[np.bool_]
) -> tuple[list[float], list[float], list[float]] | None:
    """Recall, precision and threshold of one label, from the highest threshold down; equal scores share a point."""
    p, hit = p[observed], positive[observed]
    if not hit.any():
        return None
    order = np.argsort(-p, kind="stable")
    ranked, hits = p[order], np.cumsum(hit[order])
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # of ties
    recall, precision = hits[ends] / hits[-1], hits[ends] / (ends + 1)
    last = int(np.argmax(recall >= 1.0))  # below full recall nothing more is to be seen
    kept = thinned(recall[: last + 1])
    return _short(recall[kept]), _short(precision[kept]), _short(ranked[ends][kept])


def thinned(recall: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first and the last point, and between them points evenly spaced in recall."""
    if len(recall) <= POINTS:
        return np.arange(len(recall))
    wanted = np.linspace(recall[0], recall[-1], POINTS)
    return np.unique(np.append(np.searchsorted(recall, wanted).clip(0, len(recall) - 1), len(recall) - 1))


def curves(study: Study, labels: list[int]) -> dict[str, tuple[list[float], list[float], list[float]]]:
    """By the number of the label; without those that have no positive."""
    if study.judged is None:
        return {}
    p, positive, observed = study.judged.p, study.judged.positive, study.judged.observed
    found = {str(c): precision_recall(p[:, c], positive[:, c], observed[:, c]) for c in labels}
    return {label: curve for label, curve in found.items() if curve is not None}


def histograms(study: Study) -> dict[str, dict[str, list[float]]]:
    """For each group that has labels: the shares of positives and of negatives in each bin of probability."""
    if study.judged is None:
        return {}
    result = {}
    for group in GROUPS:
        labels = study.record["groups"][group]
        if not labels:
            continue
        p, positive = study.judged.p[:, labels], study.judged.positive[:, labels]
        negative = study.judged.observed[:, labels] & ~positive
        result[group] = {"positives": shares(p[positive]), "negatives": shares(p[negative])}
    return result


def shares(p: NDArray[np.float64]) -> list[float]:
    counts = np.bincount((p * BINS).astype(np.int64).clip(0, BINS - 1), minlength=BINS)
    return _short(counts / max(counts.sum(), 1))


def _short(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 4) for value in values]
