"""`raretag report` and `raretag figure`: finished runs as a page, or as a figure of a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from raretag.cli.progress import give, screen
from raretag.core.errors import UserError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the others are compared with the first.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; default: report.html in the last run folder.")
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(
            min=0, help="How often test items are resampled for the intervals; 0: no intervals.", show_default=True
        ),
    ] = 1000,
    items: Annotated[bool, typer.Option("--items/--no-items", help="Show items; this reads the data again.")] = True,
) -> None:
    """Explain finished runs in one HTML page that needs no network."""
    from raretag.report import write_report  # torch is loaded here

    path, missing = write_report(runs, out, resamples=resamples, with_items=items)
    for sentence in missing:
        screen(error=True).print(sentence)
    screen().print(f"report: {path}")
    give({"report": path, "runs": runs, "remarks": missing})


def figure(
    name: Annotated[
        str, typer.Argument(help="A drawing, or a paper and a figure number such as plm-4 (`raretag list figures`).")
    ],
    runs: Annotated[
        list[str] | None, typer.Argument(help="Run folders; for drawings of data, a data set also works.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write: PNG, SVG or PDF.")] = Path("figure.png"),
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A=B", help="Change an option of the drawing, e.g. bins=20.")
    ] = None,
) -> None:
    """Draw a figure of the papers from runs."""
    from raretag import figures
    from raretag.core import registry

    drawing, options = figures.find(name)
    options = options | options_of(set_ or [])

    from raretag.figures.parts.canvas import check_picture, save  # matplotlib is loaded here

    check_picture(out)
    save(registry.build("figures", drawing, options).draw(runs or []), out)
    screen().print(f"picture: {out}")
    give({"picture": out, "figure": name})


def options_of(changes: list[str]) -> dict[str, object]:
    """Options of the drawing, `a=b`."""
    from raretag.config.settings import parsed

    options = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise UserError(f"'--set {change}' is not understood; expected an option, as in --set bins=20")
        options[key.strip()] = parsed(value)
    return options
