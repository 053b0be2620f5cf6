"""How much a file that somebody else made may take, so that a small file cannot fill the memory.

Both limits belong to a machine, not to a run: they are variables of the environment, which no configuration and no card
of a stranger can raise.

`RARETAG_MEMORY`: how much one file may take when it is unpacked or made dense, such as `8G` or `500M`. Without it, half
of the memory of this machine, and for packed files no more than 64 MB or 100 times their size on disk.
`RARETAG_COLUMNS`: how many columns a table may have; without it 100,000.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from raretag.core.errors import UserError

MEMORY, COLUMNS = "RARETAG_MEMORY", "RARETAG_COLUMNS"
MOST_COLUMNS = 100_000
UNPACKED_ALWAYS = 64 << 20  # bytes: a packed file may always grow to this,
UNPACKED_RATIO = 100  # and beyond it to this multiple of its size on disk; text packs 3 to 30 times
DENSE_ROWS = 32  # rows of a sparse file that are dense at once when a model learns by steps
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def memory() -> int:
    """Bytes that one file may take."""
    given = _given(MEMORY)
    return _machine() // 2 if given is None else given


def unpacked(size: int) -> int:
    """Bytes that a packed file of `size` bytes may unpack to."""
    given = _given(MEMORY)
    return given if given is not None else min(memory(), max(UNPACKED_ALWAYS, UNPACKED_RATIO * size))


def refuse_large(path: Path, needed: int, what: str) -> None:
    """Raise the error if `what` would take more memory than a file may."""
    if needed > memory():
        raise UserError(
            f"'{path}': {what} would take {words(needed)} of memory, and a file may take {words(memory())}; "
            f"is it damaged? if not, set the variable {MEMORY}, for example {MEMORY}={words(needed, up=True)}"
        )


def refuse_wide(path: Path, columns: int) -> None:
    """Raise the error if a table has more columns than it may."""
    allowed = _given(COLUMNS)
    if columns > (MOST_COLUMNS if allowed is None else allowed):
        raise UserError(
            f"'{path}' has {columns:,} columns, more than a table may; is it damaged, or the separator wrong? if not, "
            f"set the variable {COLUMNS}={columns}; numbers are better kept in one file (.npy or .npz)"
        )


def refuse_sparse(path: Path, rows: int, width: int) -> None:
    """The same for a sparse matrix [rows, width], whose size on disk says nothing of its shape."""
    refuse_large(path, 8 * (rows + 1), f"{rows:,} rows")
    refuse_large(path, 4 * DENSE_ROWS * width, f"{DENSE_ROWS} rows of {width:,} features")


def words(size: int, *, up: bool = False) -> str:
    """A number of bytes for a person: 512M, 11.4G; `up` gives a whole number that is not smaller.

    >>> words(12_345_678_901), words(12_345_678_901, up=True)
    ('11.5G', '12G')
    """
    unit = next((unit for unit in "TGMK" if size >= _UNITS[unit]), "")
    if up:
        return f"{-(-size // _UNITS[unit])}{unit}"
    amount = size / _UNITS[unit]
    return f"{amount:.0f}{unit}" if amount >= 100 else f"{amount:.3g}{unit}"


def _given(variable: str) -> int | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", text, re.IGNORECASE)
    if not found or not int(found[1]):
        raise UserError(f"the variable {variable} is {text[:40]!r}; expected a number such as 500000, 500M or 8G")
    return int(found[1]) * _UNITS[found[2].upper()]


def _machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # not everywhere
        return 16 << 30
