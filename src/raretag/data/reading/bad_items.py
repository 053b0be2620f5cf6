"""Items that cannot be used: unreadable images, blank features."""

from __future__ import annotations

from collections.abc import Callable

from raretag.core.errors import UserError


def settle(
    bad: dict[int, str],
    name: Callable[[int], str],
    items: int,
    bad_items: str,
    remedy: str = "data.bad_items=skip leaves them out",
) -> str | None:
    """What becomes of items that cannot be used: an error with the first ten, or a remark that they are left out."""
    if not bad:
        return None
    first = "; ".join(f"{name(row)}: {why}" for row, why in list(bad.items())[:10])
    if bad_items == "fail":
        raise UserError(f"{len(bad)} of {items} items cannot be used ({remedy}): {first}")
    if len(bad) == items:
        raise UserError(f"none of the {items} items can be used: {first}")
    return f"{len(bad)} of {items} items left out, as they cannot be used: {first}"
