"""`raretag list`: what there is, as the modules describe themselves."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table

from raretag.core import catalogue

ROOMS = {"methods": "methods", "data": "data", "models": "models", "samplers": "sampling"}


def show(room: str, *, plain: bool) -> None:
    if plain:
        print("\n".join(catalogue.names(ROOMS[room])))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    entries = catalogue.entries(ROOMS[room])
    table.add_column("name", no_wrap=True, style="cyan", min_width=max(len(entry.name) for entry in entries))
    table.add_column("what it is", no_wrap=True)
    if room == "methods":
        table.add_column("from", no_wrap=True, min_width=24)
        table.add_column("fills", no_wrap=True, min_width=20)
    for entry in entries:
        more = (cited(entry.source), " ".join(entry.slots)) if room == "methods" else ()
        table.add_row(entry.name, entry.summary, *more)
    console = Console()
    if not console.is_terminal:  # into a file or a pipe: wide enough for one line each
        console.width = 200
    console.print(table)


def cited(source: str) -> str:
    """`Lin et al., "Focal Loss for ...", ICCV 2017, arXiv:...` in short: `Lin et al., ICCV 2017`."""
    found = re.search(r"^([^,;.]+(?: et al\.)?),.*?((?:\b[A-Z][\w-]* ){0,2}\b(?:19|20)\d\d)\b", source)
    return f"{found[1]}, {found[2]}" if found else ""
