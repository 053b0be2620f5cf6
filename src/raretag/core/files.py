"""Files that are complete or not there at all, and the folder of what can be computed again."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to the path this gives; at the end it is renamed to `path`, and what was there before is gone.

    If anything fails, the old file stays as it was. The new one is on the disk before it gets its name, so that a crash
    cannot leave half a file behind.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(file) as new:
    ...     _ = new.write_text("whole")
    >>> file.read_text(), [other.name for other in file.parent.iterdir()]
    ('whole', ['a.txt'])
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new")  # two processes may write the same file at once
    try:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """NaN, which JSON does not have, becomes null."""
    write_text(path, json.dumps(without_nan(content), indent=1, allow_nan=False) + "\n")


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
