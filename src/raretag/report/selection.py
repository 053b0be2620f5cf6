"""Which items are worth a look. Only numbers: pictures and texts are fetched for the few that are chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raretag.report.study import Judged

EACH = 12  # items of a kind
PER_LABEL = 2


@dataclass(frozen=True)
class Pick:
    kind: str
    split: str
    row: int
    label: int  # that it was chosen for
    p: float
    right: bool | None  # whether the item has the label; None: nobody knows


def picks(judged: Judged, counts: NDArray[np.int64]) -> list[Pick]:
    """Of the test set: the rarest labels missed and found, and the surest false alarms; each item once."""
    rare_first = np.lexsort((np.arange(len(counts)), counts)).tolist()
    taken: set[int] = set()
    p, positive = judged.p, judged.positive
    negative = judged.observed & ~positive
    missed = _by_label("missed", p, positive & (p < 0.5), rare_first, taken, lowest=True)
    sure = np.where(negative, p, -1.0)
    best = np.argsort(-sure.max(0), kind="stable").tolist()  # labels with the surest false alarms
    doubt = _by_label("doubt", p, negative & (p > 0.5), best, taken, lowest=False)
    right = _by_label("right", p, positive & (p > 0.5), rare_first, taken, lowest=False)
    return [*doubt, *missed, *right]


def suggestions(
    rows: NDArray[np.int32], logits: NDArray[np.float32], truth: NDArray[np.int8], counts: NDArray[np.int64]
) -> list[Pick]:
    """Of the training set, from what the run kept for each label [C, K]: the likeliest of all, some for each label."""
    p = 1.0 / (1.0 + np.exp(-logits.astype(np.float64)))
    best = np.where(rows[:, 0] >= 0, p[:, 0], -1.0) if rows.shape[1] else np.zeros(0)
    found: list[Pick] = []
    taken: set[int] = set()
    for label in np.argsort(-best, kind="stable").tolist():
        new = [place for place, row in enumerate(rows[label].tolist()) if row >= 0 and row not in taken][:PER_LABEL]
        for place in new:
            row, known = int(rows[label, place]), int(truth[label, place])
            taken.add(row)
            right = None if known < 0 else bool(known)
            found.append(Pick("suggestion", "train", row, label, float(p[label, place]), right))
    kept = sorted(found, key=lambda pick: (-pick.p, pick.label, pick.row))[: 2 * EACH]
    return sorted(kept, key=lambda pick: (int(counts[pick.label]), pick.label, -pick.p))


def _by_label(
    kind: str,
    p: NDArray[np.float64],
    wanted: NDArray[np.bool_],
    labels: list[int],
    taken: set[int],
    *,
    lowest: bool,
) -> list[Pick]:
    found: list[Pick] = []
    for label in labels:
        rows = np.flatnonzero(wanted[:, label])
        order = rows[np.argsort(p[rows, label] if lowest else -p[rows, label], kind="stable")]
        for row in [int(row) for row in order[: 4 * PER_LABEL] if int(row) not in taken][:PER_LABEL]:
            if len(found) < EACH:
                taken.add(row)
                found.append(Pick(kind, "test", row, label, float(p[row, label]), kind != "doubt"))
        if len(found) == EACH:
            break
    return found
