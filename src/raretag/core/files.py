"""Files that are complete or not there at all, and the folder of what can be computed again."""

from __future__ import annotations

import glob
import json
import math
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from raretag.core.errors import UnwritableError, UserError

# How libraries that are not written in Python report errors of the system.
_FOREIGN = re.compile(r"\b(?:os error|errno) (\d+)", re.IGNORECASE)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to the path this gives; at the end it is renamed to `path`, and what was there before is gone.

    If anything fails, the old file stays as it was. The new one is on the disk before it gets its name, so that a crash
    cannot leave half a file behind. Whatever a killed process of this machine left of the same file is removed.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(file) as new:
    ...     _ = new.write_text("whole")
    >>> file.read_text(), [other.name for other in file.parent.iterdir()]
    ('whole', ['a.txt'])
    """
    new = path.with_name(f"{path.name}.{_host()}.{os.getpid()}.new")  # two processes may write the same file at once
    _remove_left_over(path)
    try:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(new, path)
    except UserError:
        raise
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        raise UnwritableError(f"'{path}' cannot be written: {reason}") from None
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _reason(error: Exception) -> str | None:
    """What the system said, if it was the system that failed."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    found = _FOREIGN.search(str(error))
    return os.strerror(int(found[1])) if found else str(error) if isinstance(error, OSError) else None


def _remove_left_over(path: Path) -> None:
    """New files of processes that have ended without renaming them."""
    with suppress(OSError):
        for one in path.parent.glob(f"{glob.escape(path.name)}.{_host()}.*.new"):
            word = one.name.split(".")[-2]
            if word.isdigit() and not _is_alive(int(word)):
                one.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True


def _host() -> str:
    return re.sub(r"[^\w-]", "-", socket.gethostname())[:32]


def write_text(path: Path, text: str) -> None:
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """NaN, which JSON does not have, becomes null."""
    return json.dumps(without_nan(content), indent=1, allow_nan=False) + "\n"


def without_nan(content: Any) -> Any:
    """The same with None for every number that is not finite.

    >>> without_nan({"mAP": float("nan"), "parts": (1.0, float("inf"))})
    {'mAP': None, 'parts': [1.0, None]}
    """
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [without_nan(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def cache_folder() -> Path:
    """`$RARETAG_CACHE`, else `raretag` in the user's cache folder. May be deleted at any time."""
    given = os.environ.get("RARETAG_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(home) / "raretag"
