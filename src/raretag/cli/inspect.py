"""`raretag inspect`: what is in the labels, in the terminal, as a picture and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from raretag.cli.screen import screen
from raretag.cli.train import called, check_names
from raretag.core.errors import UserError
from raretag.core.words import some
from raretag.engine.config import compose

PICTURES = (".png", ".svg", ".pdf")


def inspect_data(
    data: str, changes: list[str], picture: Path | None, into: Path | None, minutes: float | None = None
) -> None:
    config = compose(None, changes, data)
    check_names(config)
    for path in (picture, into):
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"the folder of '{path}' does not exist")
    if picture is not None and picture.suffix not in PICTURES:
        raise UserError(f"the picture '{picture}' must end in one of {', '.join(PICTURES)}")

    from raretag.engine.sources import look  # torch is loaded here
    from raretag.labels.counts import describe

    found = look(config.data, config.seed)
    console = screen()
    for remark in found.remarks:
        console.print(remark)
    description = describe(found.stores["train"], config.group_edges, counted=found.counted)
    description["splits"] = {name: len(store) for name, store in found.stores.items()}
    description["duplicates"] = found.duplicates
    show(console, called(config), description)
    if picture is not None:
        from raretag.report.distribution import draw

        draw(description, picture, f"{called(config)}: {description['items']:,} training items")
        console.print(f"picture: {picture}")
    if minutes is not None:
        from raretag.cli.recommend import recommend

        description["recommended"] = recommend(data, changes, minutes)
    if into is not None:
        into.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
        console.print(f"numbers: {into}")


def show(console: Console, name: str, description: dict[str, Any]) -> None:
    observed, groups = description["observed"], description["groups"]
    low, high = groups["edges"]
    ratio, duplicates = description["most_to_least_frequent"], description["duplicates"]
    facts = {
        "items": ", ".join(f"{split} {size:,}" for split, size in description["splits"].items()),
        "labels": f"{description['labels']:,}, {description['labels_per_item']:.2f} an item; "
        f"{description['items_without_positive']:,} items have none",
        "observed": ", ".join(f"{state} {100 * share:.1f} %" for state, share in observed.items()),
        "max : min": "-" if ratio is None else f"{ratio:,.0f} : 1",
        "groups": ", ".join(f"{group} {groups[group]}" for group in ("head", "medium", "tail"))
        + f"  (by training positives before hiding, edges {low} and {high})",
        "never positive": listed(description["never_positive"]),
        "always alone": listed(description["always_alone"]),
        "duplicates": "not checked: the inputs are not here"
        if duplicates is None
        else f"{duplicates:,} training items",
    }
    table = Table(box=None, show_header=False, pad_edge=False, title=f"{name}, training part", title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    for key, value in facts.items():
        table.add_row(key, value)
    console.print(table)
    console.print(bars(description))


def bars(description: dict[str, Any], width: int = 30) -> Table:
    """The most frequent and the rarest labels; a bar's length is the logarithm of the count."""
    from math import log1p

    highest = log1p(max((entry["positives"] for entry in description["most_frequent"]), default=1)) or 1.0
    rare = [entry for entry in reversed(description["rarest"]) if entry not in description["most_frequent"]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("label", no_wrap=True, max_width=32)
    table.add_column("positives", justify="right")
    table.add_column("(log scale)")
    gap = {"label": "...", "positives": None}
    for entry in [*description["most_frequent"], *([gap] if rare else []), *rare]:
        if entry is gap:
            table.add_row("...", "", "")
            continue
        table.add_row(
            entry["label"], f"{entry['positives']:,}", "█" * round(width * log1p(entry["positives"]) / highest)
        )
    return table


def listed(names: list[str], shown: int = 8) -> str:
    return some(names, shown) or "none"
