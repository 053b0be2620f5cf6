"""The terminal. Text is printed as it is: labels and paths are not markup, and long lines are left to the terminal."""

from __future__ import annotations

from rich.console import Console


def screen(*, error: bool = False) -> Console:
    """Standard output, or standard error for what is not the result."""
    return Console(stderr=error, highlight=False, markup=False, soft_wrap=True)
