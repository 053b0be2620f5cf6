"""The table of results in the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def results(console: Console, records: dict[str, dict[str, Any]]) -> None:
    """One row a run: mAP by group, F1, exact match, and how many classes could not be measured."""
    first = next(iter(records.values()))
    groups = first["groups"]
    table = Table(
        title=f"test set of {first['data']['name']}{made(first['config']['data'])}, in %",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("method", no_wrap=True)
    for name in ("mAP", "head", "medium", "tail", "F1", "F1*", "exact"):
        table.add_column(name, justify="right")
    table.add_column("excluded", justify="right")
    for name, record in records.items():
        final = record["metrics"]["final"]
        shown = [final["mAP"][group] for group in ("total", "head", "medium", "tail")]
        shown += [final["F1"]["total"], final["F1_tuned"]["total"], final["exact_match"]]
        table.add_row(name, *(percent(value) for value in shown), str(len(final["excluded_classes"])))
    console.print(table)
    low, high = groups["edges"]
    sizes = ", ".join(f"{name} {len(groups[name])}" for name in ("head", "medium", "tail"))
    console.print(
        f"classes by training positives before hiding: {sizes} (edges {low}, {high})\n"
        "F1: macro, at 0.5; F1*: at thresholds tuned on validation; exact: exact match of all labels\n"
        "excluded: classes that the test set cannot measure",
        highlight=False,
    )


def made(data: dict[str, Any]) -> str:
    """What was done to the training labels, in words."""
    done = [] if data["longtail"] == "none" else [f"long tail: {data['longtail']}"]
    if data["hide"] not in ("none", "fal"):  # fal: the name of none in older records
        done.append(f"training labels hidden: {data['hide'].upper()}" + (f" {data['keep']}" if data["keep"] else ""))
    return f" ({'; '.join(done)})" if done else ""


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
