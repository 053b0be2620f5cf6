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
    found = []
    for label in range(len(rows)):
        there = [place for place in range(rows.shape[1]) if rows[label, place] >= 0][:PER_LABEL]
        for place in there:
            known = int(truth[label, place])
            right = None if known < 0 else bool(known)
            found.append(Pick("suggestion", "train", int(rows[label, place]), label, float(p[label, place]), right))
    likely = sorted(found, key=lambda pick: (-pick.p, pick.label, pick.row))
    kept: list[Pick] = []
    for pick in likely:
        if pick.row not in {other.row for other in kept} and len(kept) < 2 * EACH:
            kept.append(pick)
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
