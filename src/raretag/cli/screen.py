"""The terminal. Text is printed as it is: labels and paths are not markup, and long lines are left to the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from raretag.runs.record import Record

GROUPS = ("head", "medium", "tail")


def screen(*, error: bool = False) -> Console:
    """Standard output, or standard error for what is not the result."""
    return Console(stderr=error, highlight=False, markup=False, soft_wrap=True)


def print_results(records: Mapping[str, Record]) -> None:
    """Print one row per run: mAP by group, F1, exact match, and how many classes could not be measured.

    `records` are those of finished runs on the same data, by the name of the row: {"focal": run.record}.
    """
    from raretag.runs.record import changes_to_labels

    console, first = screen(), next(iter(records.values()))
    title = f"test set of {first.data.name}{changes_to_labels(first.config['data'])}, in %"
    rows = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    rows.add_column("method", no_wrap=True)
    for name in ("mAP", *GROUPS, "F1", "F1*", "exact", "excluded"):
        rows.add_column(name, justify="right")
    for name, record in records.items():
        final = record.metrics.final
        tuned = None if final.F1_tuned is None else final.F1_tuned.total
        values = [*(final.mAP.of(group) for group in ("total", *GROUPS)), final.F1.total, tuned, final.exact_match]
        cells = ("-" if value is None else f"{100 * value:.1f}" for value in values)
        rows.add_row(name, *cells, str(len(final.excluded_classes)))
    console.print(rows)
    low, high = first.groups.edges
    sizes = ", ".join(f"{name} {len(first.groups.members[name])}" for name in GROUPS)
    console.print(
        f"classes by training positives before hiding: {sizes} (edges {low}, {high})\n"
        "F1: macro, at 0.5; F1*: at thresholds tuned on validation; exact: exact match of all labels\n"
        "excluded: classes that the test set cannot measure"
    )
