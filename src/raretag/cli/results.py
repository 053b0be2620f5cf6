"""The results of runs: as a table for people, and as what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raretag.cli.progress import screen

if TYPE_CHECKING:
    from raretag.runs.record import Record

GROUPS = ("head", "medium", "tail")
MEASURED = {
    "test": "test set of",
    "validation": "validation items of",
    "out of fold": "out of fold on",
    "held-out sample": "held-out items of",
}


def result_of(folder: Path, record: Record) -> dict[str, Any]:
    """What `--json` prints of a run."""
    tree = record.to_json()
    about = {"run": folder, "data": record.data.name, "method": record.method.name}
    return about | {"seed": tree["config"]["seed"], "metrics": tree["metrics"]["final"]}


def row_name(record: Record) -> str:
    """The method of a run (what `auto` stood for), and the methods it is made of."""
    from raretag.core import SLOTS

    method = record.config["method"]
    parts = [
        str(value["name"] if isinstance(value, dict) and "name" in value else value)
        for key, value in method.items()
        if key in ("base", *SLOTS)
    ]
    return str(method["name"]) + (f" ({', '.join(parts)})" if parts else "")


def print_results(records: Mapping[str, Record]) -> None:
    """Print one row per run: mAP by group, F1, exact match, and how many labels could not be measured.

    `records` are those of finished runs on the same data, by the name of the row: {"focal": run.record}.
    """
    from rich import box
    from rich.table import Table

    from raretag.runs.record import OUT_OF_FOLD, changes_to_labels

    console, first = screen(), next(iter(records.values()))
    if first.method.ranks:
        print_rankings(records)
        return
    measured = MEASURED.get(first.metrics.final.measured_on, first.metrics.final.measured_on)
    title = f"{measured} {first.data.name}{changes_to_labels(first.config['data'])}, in %"
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
    hidden = " before hiding" if first.config["data"].get("hide", "none") != "none" else ""
    console.print(
        f"labels by training positives{hidden}: {sizes} (edges {low}, {high})\n"
        f"F1: macro, at 0.5; F1*: {where_tuned(first)}; exact: exact match of all labels\n"
        "excluded: labels that these items cannot measure"
    )
    if first.metrics.final.measured_on == "out of fold":
        console.print(OUT_OF_FOLD)


def print_rankings(records: Mapping[str, Record]) -> None:
    """The same for models that rank very many labels."""
    from rich import box
    from rich.table import Table

    console, first = screen(), next(iter(records.values()))
    measured = MEASURED.get(first.metrics.final.measured_on, first.metrics.final.measured_on)
    rows = Table(
        title=f"{measured} {first.data.name}, in %", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    rows.add_column("method", no_wrap=True)
    shown = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5")
    for name in (*shown, "R@10", *GROUPS):
        rows.add_column(name, justify="right")

    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f}"

    for name, record in records.items():
        top = record.metrics.final.top or {}
        values = [*(top.get(key) for key in shown), *(top.get("recall@10", {}).get(key) for key in ("total", *GROUPS))]
        rows.add_row(name, *map(percent, values))
    console.print(rows)
    low, high = first.groups.edges
    sizes = ", ".join(f"{name} {size:,}" for name, size in first.groups.sizes.items())
    console.print(
        f"labels by training positives: {sizes} (edges {low}, {high})\n"
        "PSP: hits weighted by how rarely a label is marked; R@10: recall among the first 10, and by group of labels"
    )
    for name, record in records.items():
        found = {key: percent(value) for key, value in (record.metrics.final.decisions or {}).items()}
        words = ", ".join(f"{key} {value}" for key, value in found.items())
        console.print(f"labels that {name} chooses at its threshold: {words}")


def where_tuned(record: Record) -> str:
    """Which thresholds F1* goes with."""
    tuned = record.tuned or {}
    if tuned.get("fitted_to") != "out of fold":
        return "at thresholds tuned on validation"
    return "at thresholds tuned out of fold" if tuned.get("cuts") == "tuned" else "the same, as tuning did not pay"
