"""Cells of a CSV that people open in a spreadsheet, where a text that begins with = + - or @ is a formula and runs.

Such a text gets an apostrophe in front, which spreadsheets show as text. Numbers stay as they are. `unguarded` takes
the apostrophe away again, so that a list that was opened and answered finds its items.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_GUARDED = re.compile(r"'+[=+\-@\t\r]")


def guarded(text: str) -> str:
    """The same text, harmless in a spreadsheet.

    >>> guarded("=HYPERLINK(1)"), guarded("-0.5"), guarded("sea"), unguarded(guarded("@sum"))
    ("'=HYPERLINK(1)", '-0.5', 'sea', '@sum')
    """
    return f"'{text}" if _FORMULA.match(text) and not _is_number(text) else text


def unguarded(text: str) -> str:
    """What `guarded` was given."""
    return text[1:] if _GUARDED.match(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text and "_" not in text
