"""Charts as plotly dictionaries. Colours of text and lines come from the page, which knows light and dark."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raretag.report.study import GROUPS, Study

Chart = dict[str, Any]
RUNS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito: for all kinds of eyes
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
OF_GROUP = {"head": RUNS[0], "medium": RUNS[2], "tail": RUNS[1]}
MOST_POINTS = 1500
BINS = 20
CURVE_POINTS = 48
MOST_LINES = 12
STEPS = ((53, 96, 171), (38, 150, 178), (94, 186, 139), (196, 188, 68), (226, 138, 40))  # readable on light and dark


def plain(text: str, longest: int = 40) -> str:
    """A name that plotly must not read as markup."""
    return html.escape(text if len(text) <= longest else f"{text[: longest - 1]}…", quote=False)


def precision_by_count(studies: list[Study], shown: Study) -> Chart | None:
    """Average precision of each label against its training positives; the baseline's beside it."""
    if shown.counts is None:
        return None
    baseline = studies[0]
    both = [baseline, shown] if baseline is not shown and baseline.labels == shown.labels else [shown]
    members = shown.labels_to_show(MOST_POINTS)
    names = [plain(shown.labels[label]) for label in members]
    counts = np.maximum(shown.counts[members], 0.5)  # a logarithm knows no zero
    data = []
    if len(both) == 2:
        data.append(_joined(counts, both, members))
    for study in both:
        number = studies.index(study)
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": plain(study.name),
                "x": counts.tolist(), "y": _short(100 * study.average_precision[members]), "text": names,
                "customdata": [[shown.group[label], int(shown.counts[label])] for label in members],
                "hovertemplate": "%{text} (%{customdata[0]})<br>AP %{y:.1f} %<br>%{customdata[1]} training positives",
                "marker": {"color": colour(number), "symbol": symbol(number), "size": 9, "opacity": 0.85},
            }
        )  # fmt: skip
    layout = {
        "xaxis": {"type": "log", "title": {"text": "training positives (log)"}, "dtick": 1},
        "yaxis": {"title": {"text": "average precision, %"}, "range": [-3, 103]},
        "shapes": [
            {
                "type": "line", "x0": edge, "x1": edge, "yref": "paper", "y0": 0, "y1": 1,
                "line": {"dash": "dot", "width": 1},
            }
            for edge in shown.record["groups"]["edges"]
            if edge > 0
        ],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _joined(counts: np.ndarray[Any, Any], both: list[Study], members: list[int]) -> dict[str, Any]:
    """Thin lines from the baseline's point to the other: gaps between them are None."""
    x: list[float | None] = []
    y: list[float | None] = []
    for place, label in enumerate(members):
        ends = [study.average_precision[label] for study in both]
        if not np.isnan(ends).any():
            x += [float(counts[place]), float(counts[place]), None]
            y += [round(100 * float(ends[0]), 2), round(100 * float(ends[1]), 2), None]
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "showlegend": False,
        "line": {"color": "#888888", "width": 1},
    }  # fmt: skip


def probability_histograms(study: Study) -> list[tuple[str, Chart]]:
    """One for each group (figure 1 of the PLM paper)."""
    centres = [round((bin + 0.5) / BINS, 4) for bin in range(BINS)]
    found = []
    shares = histograms(study)
    highest = 100 * max((max(side) for sides in shares.values() for side in sides.values()), default=1.0)
    for group, sides in shares.items():
        data = [
            {
                "type": "bar", "name": side, "x": centres, "y": [round(100 * share, 2) for share in sides[side]],
                "marker": {"color": tint}, "opacity": 0.75, "width": 1 / BINS,
                "hovertemplate": f"%{{y:.1f}} % of the {side}",
            }
            for side, tint in (("negatives", "#56B4E9"), ("positives", "#D55E00"))
        ]  # fmt: skip
        layout = {
            "barmode": "overlay",
            "xaxis": {"title": {"text": "predicted probability"}, "range": [0, 1]},
            "yaxis": {"title": {"text": "share, %"}, "range": [0, round(1.05 * highest, 1)]},
        }
        found.append((group, {"data": data, "layout": layout}))
    return found


def lines(
    curves: dict[str, list[float | None]], x: list[int], title: str, colours: dict[str, str] | None = None, **axis: Any
) -> Chart:
    tints = colours or {}
    data = [
        {
            "type": "scatter", "mode": "lines+markers" if len(x) <= 40 else "lines", "name": plain(name), "x": x,
            "y": [None if value is None else float(f"{value:.5g}") for value in values],
            "line": {"color": tints.get(name, "#888888" if name == "total" else colour(number)), "width": 2.2},
            "marker": {"symbol": symbol(number), "size": 6},
        }
        for number, (name, values) in enumerate(curves.items())
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "epoch"}, **({"dtick": 1} if len(x) <= 12 else {})},
        "yaxis": {"title": {"text": title}, **axis},
        "showlegend": len(data) > 1,
    }
    return {"data": data, "layout": layout}


def ladder(names: list[str]) -> dict[str, str]:
    """Colours from the most frequent label, blue, to the rarest, orange: more than there are colours to name."""
    found = {}
    for place, name in enumerate(names):
        step = place / max(1, len(names) - 1) * (len(STEPS) - 1)
        low = min(int(step), len(STEPS) - 2)
        mixed = [round(a + (step - low) * (b - a)) for a, b in zip(STEPS[low], STEPS[low + 1], strict=True)]
        found[name] = f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
    return found


def colour(number: int) -> str:
    return RUNS[number % len(RUNS)]


def symbol(number: int) -> str:
    return SYMBOLS[number % len(SYMBOLS)]


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _short(values: np.ndarray[Any, Any]) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 2) for value in values]


# Curves and histograms as numbers, few enough to be embedded. --------------------------------------------------------


def precision_recall(
    p: NDArray[np.float64], positive: NDArray[np.bool_], observed: NDArray[np.bool_]
) -> tuple[list[float], list[float], list[float]] | None:
    """Recall, precision and threshold of one label, from the highest threshold down; equal scores share a point.

    >>> precision_recall(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]), np.array([True, True, True]))
    ([0.5, 0.5, 1.0], [1.0, 0.5, 0.6667], [0.9, 0.8, 0.1])
    """
    p, hit = p[observed], positive[observed]
    if not hit.any():
        return None
    order = np.argsort(-p, kind="stable")
    ranked, hits = p[order], np.cumsum(hit[order])
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # of ties
    recall, precision = hits[ends] / hits[-1], hits[ends] / (ends + 1)
    last = int(np.argmax(recall >= 1.0))  # lower thresholds add nothing
    kept = thinned(recall[: last + 1])
    return _rounded(recall[kept]), _rounded(precision[kept]), _rounded(ranked[ends][kept])


def thinned(recall: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first and the last point, and between them points evenly spaced in recall."""
    if len(recall) <= CURVE_POINTS:
        return np.arange(len(recall))
    wanted = np.linspace(recall[0], recall[-1], CURVE_POINTS)
    return np.unique(np.append(np.searchsorted(recall, wanted).clip(0, len(recall) - 1), len(recall) - 1))


def precision_recall_curves(study: Study, labels: list[int]) -> dict[str, tuple[list[float], list[float], list[float]]]:
    """By the number of the label; without those that have no positive."""
    if study.test is None:
        return {}
    p, positive, observed = study.test.p, study.test.positive, study.test.observed
    found = {str(c): precision_recall(p[:, c], positive[:, c], observed[:, c]) for c in labels}
    return {label: curve for label, curve in found.items() if curve is not None}


def histograms(study: Study) -> dict[str, dict[str, list[float]]]:
    """For each group that has labels: the shares of positives and of negatives in each bin of probability."""
    if study.test is None:
        return {}
    result = {}
    for group in GROUPS:
        labels = study.record["groups"][group]
        if not labels:
            continue
        p, positive = study.test.p[:, labels], study.test.positive[:, labels]
        negative = study.test.observed[:, labels] & ~positive
        result[group] = {"positives": shares(p[positive]), "negatives": shares(p[negative])}
    return result


def shares(p: NDArray[np.float64]) -> list[float]:
    counts = np.bincount((p * BINS).astype(np.int64).clip(0, BINS - 1), minlength=BINS)
    return _rounded(counts / max(counts.sum(), 1))


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 4) for value in values]
