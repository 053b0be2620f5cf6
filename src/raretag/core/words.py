"""Lists within a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def some(words: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """The first ones, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return between.join(words[:most]) + more
