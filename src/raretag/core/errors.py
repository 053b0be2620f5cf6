"""Mistakes that a user can correct, and lists within a sentence."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(ValueError):
    """A mistake that a user can correct, in one line: what arrived, what was expected, the likely reason.

    The command line shows it without a traceback.

    >>> import raretag
    >>> try:
    ...     raretag.methods.ClassBalanced()
    ... except raretag.UserError as error:
    ...     print(str(error).split(":")[0])
    ClassBalanced needs label statistics
    """


class DataAbsentError(UserError):
    """Files of a named data set are not there; the message names where to get them."""


def some(words: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """The first ones, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return between.join(words[:most]) + more
