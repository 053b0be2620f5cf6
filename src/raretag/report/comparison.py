"""Runs against the baseline: differences on the same test items, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raretag.report.charts import Chart, colour, plain, symbol
from raretag.report.markup import DASH, Cell, percent, share, table, text
from raretag.report.study import GROUPS, Study

PARTS = ("total", *GROUPS)
Numbers = dict[str, float | None]  # value, low, high, p_value


@dataclass(frozen=True)
class Comparison:
    """`differences`: by metric, by run, by part (total and groups): that run minus the baseline."""

    baseline: str
    intervals: dict[str, dict[str, Numbers]]  # of mAP: by run, by part
    differences: dict[str, dict[str, dict[str, Numbers]]]
    resamples: int
    left_out: Sequence[str] = ()  # why a run could not be compared

    def margin(self, run: str) -> float | None:
        """Half of the 95 % interval of a run's mAP.

        From the standard error: resamples repeat items, and with few positives that makes AP higher than on the items
        themselves, so that quantiles of resamples need not contain the number.
        """
        error = self.intervals.get(run, {}).get("total", {}).get("standard_error")
        return None if error is None else 1.96 * error


def difference_tables(comparison: Comparison) -> str:
    parts = []
    for metric, runs in comparison.differences.items():
        rows = []
        for run, numbers in runs.items():
            cells = [cell for part in PARTS if part in numbers for cell in _cells(numbers[part])]
            rows.append([run, *cells])
        if rows:
            shown = [part for part in PARTS if part in next(iter(runs.values()))]
            heads = ["run", *(name for part in shown for name in (part, f"p ({part})"))]
            parts.append(table(heads, rows, caption=f"{metric}, points above or below {comparison.baseline}"))
    left_out = "".join(f'<p class="quiet">{text(sentence)}</p>' for sentence in comparison.left_out)
    note = (
        f"Each difference is on the same test items; in brackets the 95 % interval of {comparison.resamples:,} paired "
        "bootstrap resamples. An interval that excludes 0 is unlikely to come from the choice of test items alone; "
        "variation between seeds is not included. p is for a single comparison: among many, expect some below 0.05 by "
        "chance."
    )
    return f'{"".join(parts)}{left_out}<p class="quiet">{text(note)}</p>'


def _cells(numbers: Numbers) -> list[Cell]:
    value, low, high, p = (numbers.get(name) for name in ("value", "low", "high", "p_value"))
    shown = share(value, sign=True)
    sure = low is not None and high is not None and (low > 0 or high < 0)
    interval = "" if low is None else f' <small class="quiet">[{percent(low, True)}, {percent(high, True)}]</small>'
    weight = "strong" if sure else "span"
    return [
        Cell(f"<{weight}>{shown}</{weight}>{interval}", shown.key),
        Cell(DASH if p is None else f"{p:.3f}", float("nan") if p is None else p),
    ]


def difference_chart(comparison: Comparison, studies: list[Study], metric: str) -> Chart | None:
    """A point and an interval for each run and part."""
    runs = comparison.differences.get(metric, {})
    data: list[dict[str, Any]] = []
    names = [study.name for study in studies]
    for run, numbers in runs.items():
        parts = [part for part in reversed(PARTS) if numbers.get(part, {}).get("value") is not None]
        found = [{key: 100 * (value or 0.0) for key, value in numbers[part].items()} for part in parts]
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": plain(run), "y": parts,
                "x": [round(one["value"], 2) for one in found],
                "error_x": {
                    "type": "data", "symmetric": False, "thickness": 2, "width": 6,
                    "array": [round(one["high"] - one["value"], 2) for one in found],
                    "arrayminus": [round(one["value"] - one["low"], 2) for one in found],
                },
                "marker": {"color": colour(names.index(run)), "symbol": symbol(names.index(run)), "size": 10},
                "hovertemplate": "%{y}: %{x:+.1f} points",
            }
        )  # fmt: skip
    if not data:
        return None
    layout = {
        "scattermode": "group",
        "xaxis": {"title": {"text": "difference, points"}, "zeroline": True},
        "yaxis": {"type": "category", "automargin": True},
        "showlegend": True,
    }
    return {"data": data, "layout": layout}
