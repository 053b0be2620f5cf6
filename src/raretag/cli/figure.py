"""`raretag figure`: a figure of a paper from run folders."""

from __future__ import annotations

from pathlib import Path

from raretag import figures
from raretag.cli.screen import screen
from raretag.config.settings import parsed
from raretag.core import registry as registry
from raretag.core.errors import UserError
from raretag.engine.config import parsed


def draw_figure(name: str, words: list[str], out: Path, changes: list[str]) -> None:
    drawing, options = figures.find(name)
    options = options | options_of(changes)

    from raretag.figures.parts.canvas import check_picture, save  # matplotlib is loaded here

    check_picture(out)
    save(registry.build("figures", drawing, options).draw(words), out)
    screen().print(f"picture: {out}")


def options_of(changes: list[str]) -> dict[str, object]:
    """Options of the drawing, `a=b`."""
    options = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key.strip():
            raise UserError(f"'--set {change}' is not understood; expected an option, as in --set bins=20")
        options[key.strip()] = parsed(value)
    return options
