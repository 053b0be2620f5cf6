"""Curves over the epochs: the loss, validation mAP, and the numbers that the parts of a method record of themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from raretag.report.charts import MOST_LINES, OF_GROUP, RUNS, Chart, ladder, lines, percent
from raretag.report.study import GROUPS, Study

Join = Callable[[np.ndarray[Any, Any]], float]


@dataclass(frozen=True)
class Quantity:
    title: str
    meaning: str
    join: Join = lambda values: float(np.mean(values))  # of the labels of a group
    axis: tuple[tuple[str, Any], ...] = ()


def _geometric(values: np.ndarray[Any, Any]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-12)))))


LOG = (("type", "log"),)
BY_LABEL = {
    "ratio": Quantity("Masking ratio", "The ratio of positives to negatives that PLM trains with.", _geometric, LOG),
    "ratio_change": Quantity(
        "Change of the masking ratio",
        "PLM trains as if positives were this many times as frequent as they are: above 1 negatives are masked, "
        "below 1 positives.",
        _geometric,
        LOG,
    ),
    "pseudo_label": Quantity(
        "Mean pseudo-label",
        "The average value that unknown labels are given. It should stay near the frequency of the label; a steady "
        "rise means drift.",
    ),
    "corrected": Quantity(
        "Corrected labels",
        "Unknown labels that were trained as positives in the epoch.",
        lambda values: float(np.sum(values)),
    ),
    "positives": Quantity(
        "Class distribution",
        "Positives that the loss counts: observed and corrected ones.",
        lambda values: float(np.sum(values)),
        LOG,
    ),
}
SCALARS = {
    "ratio_lowest": "the smallest masking ratio of a label",
    "ratio_highest": "the largest masking ratio of a label",
    "kept_share": "share of all labels that masking leaves in the loss",
    "mean_pseudo_label": "mean of all pseudo-labels",
    "picked_share": "share of the unknown labels that are trained on",
    "unknown_weight": "weight of unknown labels against observed ones",
    "corrected_last_epoch": "unknown labels trained as positives in the epoch",
    "corrected_ever": "the same, since the start",
    "corrected_in_distribution": "corrected labels that the class distribution counts",
    "kappa_head": "weight of the head teacher",
    "kappa_tail": "weight of the tail teacher",
    "estimator_moved": "mean change of the estimated labels",
}
TOGETHER = {
    "range of ratios": ("ratio_lowest", "ratio_highest"),
    "weights of the teachers": ("kappa_head", "kappa_tail"),
    "number of corrected labels": ("corrected_last_epoch", "corrected_ever", "corrected_in_distribution"),
}


def learning_curves(study: Study) -> list[tuple[str, Chart]]:
    """Title and chart: loss, and mAP on validation by group."""
    rows = study.record["metrics"]["epochs"]
    epochs = [row["epoch"] + 1 for row in rows]
    charts = [("Loss", lines({"loss": [row["loss"] for row in rows]}, epochs, "training loss"))]
    parts = ["total", *(group for group in GROUPS if study.record["groups"][group])]
    curves = {part: [percent(row["validation"]["mAP"][part]) for row in rows] for part in parts}
    return [*charts, ("Validation mAP", lines(curves, epochs, "mAP on validation, %", OF_GROUP))]


def method_curves(study: Study) -> list[tuple[str, str, Chart]]:
    """Title, meaning and chart of everything that the method recorded."""
    rows = study.epochs
    epochs = [row["epoch"] + 1 for row in rows]
    found = [] if not any(sum(row.get("found_missing", {}).values()) for row in rows) else [_found_missing(study)]
    for name in dict.fromkeys(name for row in rows for name in row.get("by_label", {})):
        quantity = BY_LABEL.get(name, Quantity(name.replace("_", " "), ""))
        curves, by_group = _by_label(study, name, quantity)
        tints = OF_GROUP if by_group else ladder(list(curves))
        chart = lines(curves, epochs, quantity.title.lower(), tints, **dict(quantity.axis))
        found.append((quantity.title + (" by group" if by_group else ""), quantity.meaning, chart))
    for title, names in _families(study):
        curves = {name: [row.get("vital_signs", {}).get(name) for row in rows] for name in names}
        meaning = "; ".join(f"{name}: {SCALARS[name]}" for name in names if name in SCALARS)
        found.append((title, meaning, lines(curves, epochs, title.lower())))
    return found


def _families(study: Study) -> list[tuple[str, list[str]]]:
    """Numbers that belong into one chart."""
    names = list(dict.fromkeys(name for row in study.epochs for name in row.get("vital_signs", {})))
    families: dict[str, list[str]] = {}
    for name in names:
        title = next((title for title, members in TOGETHER.items() if name in members), name.replace("_", " "))
        families.setdefault(title.capitalize(), []).append(name)
    return list(families.items())


def _by_label(study: Study, name: str, quantity: Quantity) -> tuple[dict[str, list[float | None]], bool]:
    """A line for each label if they are few, else for each group."""
    rows = [row.get("by_label", {}).get(name) for row in study.epochs]
    names = study.labels
    if len(names) <= MOST_LINES:
        order = list(range(len(names))) if study.counts is None else np.argsort(-study.counts, kind="stable").tolist()
        return {names[c]: [None if row is None else row[c] for row in rows] for c in order}, False
    curves: dict[str, list[float | None]] = {}
    for group in GROUPS:
        members = study.record["groups"][group]
        if members:
            curves[group] = [None if row is None else quantity.join(np.array(row)[members]) for row in rows]
    return curves, True


def _found_missing(study: Study) -> tuple[str, str, Chart]:
    epochs = [row["epoch"] + 1 for row in study.epochs]
    data = [
        {
            "type": "bar", "name": name, "x": epochs, "marker": {"color": tint},
            "y": [row.get("found_missing", {}).get(side, 0) for row in study.epochs],
        }
        for side, name, tint in (("right", "truly missing", RUNS[2]), ("wrong", "not there", RUNS[1]))
    ]  # fmt: skip
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": "epoch"}, **({"dtick": 1} if len(epochs) <= 12 else {})},
        "yaxis": {"title": {"text": "labels"}},
    }
    meaning = (
        "Unknown labels that the method trained as positives, checked against the labels that were hidden on purpose."
    )
    return "Filled-in labels, right and wrong", meaning, {"data": data, "layout": layout}
