"""`raretag figure`: a figure of a paper from run folders."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from raretag.core import catalogue
from raretag.core.errors import UserError
from raretag.engine.config import parsed
from raretag.figures.parts import papers


def draw_figure(name: str, words: list[str], out: Path, changes: list[str]) -> None:
    drawing, options = papers.find(name)
    options = options | told(changes)

    from raretag.figures.parts.canvas import check_picture, save  # matplotlib is loaded here

    check_picture(out)
    save(catalogue.build("figures", drawing, options).draw(words), out)
    Console().print(f"picture: {out}", highlight=False, soft_wrap=True)


def told(changes: list[str]) -> dict[str, object]:
    """Options of the drawing, `a=b`."""
    options = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise UserError(f"'--set {change}' is not understood; expected an option, as in --set bins=20")
        options[key.strip()] = parsed(value)
    return options
