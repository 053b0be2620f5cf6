"""What is printed comes out as it is: labels and paths are no markup, and the terminal breaks lines, not we."""

from __future__ import annotations

from rich.console import Console


def screen(*, error: bool = False) -> Console:
    return Console(stderr=error, highlight=False, markup=False, soft_wrap=True)
