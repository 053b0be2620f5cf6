"""Items worth a look: which ones (from numbers alone), and their cards with picture or text, labels and findings."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raretag.report.markup import text
from raretag.report.study import Example, Scores, Study

EACH = 12  # items of a kind
PER_LABEL = 2
TITLES = {
    "suggestion": (
        "Labels that may be missing in training",
        "These training items are not marked with the label, but the model predicts it. The likeliest of each label, "
        "so that rare ones appear too; `raretag suggest` makes the whole list, out of fold.",
    ),
    "doubt": (
        "Predicted with confidence, but not in the test labels",
        "A mistake of the model, or a label that is missing in the test set.",
    ),
    "missed": (
        "Missed labels, the rarest first",
        "Test items that have the label, with the lowest probability that the model gives it.",
    ),
    "right": ("Rare labels that were found", "Test items whose rarest label is ranked best."),
}


def gallery(study: Study) -> str:
    parts = []
    for kind, (title, note) in TITLES.items():
        found = [example for example in study.examples if example.kind == kind]
        if found:
            cards = "".join(map(card, found))
            parts.append(f'<h3>{title}</h3><p class="quiet">{note}</p><div class="cards">{cards}</div>')
    return "".join(parts) or "<p>There are no items to show: see what is missing on the first page.</p>"


def card(example: Example) -> str:
    if example.image is not None:
        picture = base64.b64encode(example.image).decode()
        head = f'<img src="data:image/jpeg;base64,{picture}" alt="item {text(example.id, 60)}" decoding="async">'
    elif example.text is not None:
        head = f"<blockquote>{text(example.text, 400)}</blockquote>"
    else:
        head = ""
    found = "".join(_found(*entry) for entry in example.found)
    missed = "".join(f'<li class="wrong">missed: {text(name, 60)} {_p(p)}</li>' for name, p in example.missed)
    present = ", ".join(text(name, 60) for name in example.present) or "none known"
    return (
        f'<article class="card">{head}<p class="quiet id">{text(example.id, 60)}</p>'
        f"<p>has: {present}</p><ul>{found}{missed}</ul></article>"
    )


def _found(name: str, p: float, right: bool | None) -> str:
    kind, mark = {True: ("right", "✓"), False: ("wrong", "✗"), None: ("unsure", "?")}[right]
    meaning = {True: "truly there", False: "not there", None: "not marked"}[right]
    return (
        f'<li class="{kind}"><span aria-label="{meaning}" title="{meaning}">{mark}</span> {text(name, 60)} {_p(p)}</li>'
    )


def _p(p: float) -> str:
    return f'<small class="quiet">{100 * p:.0f}&nbsp;%</small>'


@dataclass(frozen=True)
class Pick:
    kind: str
    split: str
    row: int
    label: int  # that it was chosen for
    p: float
    right: bool | None  # whether the item has the label; None: nobody knows


def picks(test: Scores, counts: NDArray[np.int64]) -> list[Pick]:
    """Of the test set: the rarest labels missed and found, and the surest false alarms; each item once."""
    rare_first = np.lexsort((np.arange(len(counts)), counts)).tolist()
    taken: set[int] = set()
    p, positive = test.p, test.positive
    negative = test.observed & ~positive
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
    likeliest = sorted(found, key=lambda pick: (-pick.p, pick.label, pick.row))[: 2 * EACH]
    return sorted(likeliest, key=lambda pick: (int(counts[pick.label]), pick.label, -pick.p))


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
