"""`raretag list`: what there is, as the modules describe themselves."""

from __future__ import annotations

import os
import re
from pathlib import Path

from rich.table import Table

from raretag.bench import plan as plans
from raretag.cli.screen import screen
from raretag.core import registry as registry
from raretag.figures import PAPERS
from raretag.methods import FILLS

WIDE = 120  # columns of a terminal from which there is room for more than name and summary
ROOMS = {"methods": "methods", "data": "data", "models": "models", "samplers": "sampling", "figures": "figures"}


def show(room: str, *, plain: bool) -> None:
    if room == "plans":
        show_plans(plain=plain)
        return
    entries = registry.entries(ROOMS[room])
    if plain:
        print("\n".join(entry.name for entry in entries))
        return
    console = screen()
    if not console.is_terminal:  # into a file or a pipe: wide enough for one line each
        console.width = 260
    columns = {"methods": of_method, "data": of_data, "figures": of_figure}.get(room, lambda entry: {})
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", no_wrap=True, style="cyan")
    table.add_column("what it is")
    for name in columns(entries[0]) if console.width >= WIDE or room in ("data", "figures") else ():
        table.add_column(name, overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, *list(columns(entry).values())[: len(table.columns) - 2])
    console.print(table)
    if room == "data":
        root = os.environ.get("RARETAG_DATA")
        console.print(f"\nfolder of named data sets: {root or 'not set; set RARETAG_DATA or data.root'}")


def show_plans(*, plain: bool) -> None:
    for name in plans.names():
        plan = plans.load(name)
        print(name if plain else f"{name:16s} {plan.title} ({plan.source})")


def of_method(entry: registry.Entry) -> dict[str, str]:
    return {"from": cited(entry.source), "fills": " ".join(FILLS.get(entry.name, ()))}


def of_figure(entry: registry.Entry) -> dict[str, str]:
    return {"also called": " ".join(number for number, (name, _) in PAPERS.items() if name == entry.name)}


def of_data(entry: registry.Entry) -> dict[str, str]:
    root = os.environ.get("RARETAG_DATA")
    missing = entry.missing(None if root is None else Path(root))
    state = "" if not entry.files else f"missing {missing[0].split('|')[0]}" if missing else "present"
    return {"where to get it, and its files": entry.source if entry.files else "", "here": state}


def cited(source: str) -> str:
    """`Lin et al., "Focal Loss for ...", ICCV 2017, arXiv:...` in short: `Lin et al., ICCV 2017`."""
    found = re.search(r"^([^,;.]+(?: et al\.)?),.*?((?:\b[A-Z][\w-]* ){0,2}\b(?:19|20)\d\d)\b", source)
    return f"{found[1]}, {found[2]}" if found else ""
