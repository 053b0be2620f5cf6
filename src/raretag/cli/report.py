"""`raretag report`: finished runs as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raretag.cli.screen import screen


def report_runs(folders: Sequence[Path], out: Path | None, *, resamples: int, with_items: bool) -> None:
    from raretag.report.runs import write_report  # torch is loaded here

    path, missing = write_report(folders, out, resamples=resamples, with_items=with_items)
    for sentence in missing:
        screen(error=True).print(sentence)
    screen().print(f"report: {path}")
