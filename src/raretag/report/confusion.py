"""The worst labels, and what they are taken for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raretag.report.study import Study

SHOWN = 3
Named = tuple[tuple[str, int], ...]  # labels and how often


@dataclass(frozen=True)
class Confused:
    label: int
    found_instead: Named  # labels that were wrongly found where this one was missed
    alarms_on: Named  # labels of the items on which this one was wrongly found
    together: Named  # labels that it occurs with in training


def worst(study: Study, most: int = 12) -> list[int]:
    """Labels with the lowest average precision, of equals the rarer one first."""
    ap = study.average_precision
    counts = np.zeros(len(ap)) if study.counts is None else study.counts
    order = np.lexsort((np.arange(len(ap)), counts, np.nan_to_num(ap, nan=2.0)))
    return [int(label) for label in order[:most] if not np.isnan(ap[label])]


def confusions(study: Study, labels: list[int]) -> list[Confused]:
    """Decisions are made at the thresholds tuned on validation: at 0.5 a label that is never found confuses nobody."""
    names = study.labels
    nothing: list[Named] = [()] * len(labels)
    instead = alarms = nothing
    if study.judged is not None:
        positive = study.judged.positive
        decided = study.judged.p > study.thresholds
        wrong = (decided & study.judged.observed & ~positive).astype(np.float32)
        missed = (positive & ~decided)[:, labels].astype(np.float32)
        instead = [_most(row, names, label) for row, label in zip(missed.T @ wrong, labels, strict=True)]
        present = positive.astype(np.float32)
        alarms = [_most(row, names, label) for row, label in zip(wrong[:, labels].T @ present, labels, strict=True)]
    together = nothing
    if study.together is not None:
        others, counts = study.together
        together = [_pairs(others[label], counts[label], names) for label in labels]
    return [Confused(*found) for found in zip(labels, instead, alarms, together, strict=True)]


def _most(counts: NDArray[np.float32], names: list[str], without: int) -> Named:
    order = np.argsort(-counts, kind="stable")
    return _pairs(order[order != without], counts[order[order != without]].astype(np.int64), names)


def _pairs(labels: NDArray[np.int64], counts: NDArray[np.int64], names: list[str]) -> Named:
    pairs = zip(labels[:SHOWN].tolist(), counts[:SHOWN].tolist(), strict=True)
    return tuple((names[label], int(count)) for label, count in pairs if count > 0)
