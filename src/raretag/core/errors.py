"""Mistakes that a user can correct, and lists and strange words within a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

# C0 and C1 without tab and end of line, and the signs that change the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_LONG_WORD = re.compile(r"\S{201,}")  # longer than paths are
LONGEST = 1000  # characters of a message


class UserError(ValueError):
    """A mistake that a user can correct, in one line: what arrived, what was expected, the likely reason.

    The command line shows it without a traceback.

    >>> import raretag
    >>> try:
    ...     raretag.methods.ClassBalanced()
    ... except raretag.UserError as error:
    ...     print(str(error).split(":")[0])
    ClassBalanced needs label statistics

    What arrived may be anything, so whatever the message says of it is shown shortened and without control characters.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(brief(visible(str(message))))


class UnwritableError(UserError, OSError):
    """A file could not be written: full disk, no permission, a folder that is gone. Nothing of it is left behind."""

    exit_code = 74  # EX_IOERR of sysexits.h

    def __str__(self) -> str:
        return str(self.args[0])


class DataAbsentError(UserError):
    """Files of a named data set are not there; the message names where to get them."""


def some(words: Sequence[str], most: int = 8, between: str = ", ") -> str:
    """The first ones, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return between.join(words[:most]) + more


def counted(number: int, thing: str) -> str:
    """A number and what it counts.

    >>> counted(1, "label"), counted(2000, "label"), counted(2, "category")
    ('1 label', '2,000 labels', '2 categories')
    """
    things = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else things}"


def brief(text: str) -> str:
    """A message that fits a screen: of words and texts that are too long, the beginning and the end.

    >>> brief("there is no method '" + "x" * 5000 + "'; expected a name")
    "there is no method 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx … xxxxxxxxxxxxxxxxxx'; expected a name"
    """
    text = _LONG_WORD.sub(lambda found: f"{found[0][:40]} … {found[0][-20:]}", text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 303]} … {text[-300:]}"


def visible(text: str) -> str:
    """Text on its way to a terminal: escape sequences in labels, texts and paths are shown, not obeyed.

    >>> print(visible("sea\\x1b[2Jboat"))
    sea\\x1b[2Jboat
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
