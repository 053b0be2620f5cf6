"""Ready-made features in a NumPy archive: arrays only, no pickled objects, bounded size."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raretag.data.reading.bounded import UNPACKED_ALWAYS, UNPACKED_RATIO, wrong

LARGEST = 16 << 30


def features(path: Path) -> tuple[NDArray[Any], list[str]]:
    """`X` [N, D] and `ids` [N] of an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        allowed = min(LARGEST, max(UNPACKED_ALWAYS, UNPACKED_RATIO * path.stat().st_size))
        if unpacked > allowed:
            raise wrong(path, f"unpacks to {unpacked:,} bytes, too much for its size; is it damaged?")
        with np.load(path, allow_pickle=False) as stored:
            absent = {"X", "ids"} - set(stored.files)
            if absent:
                raise wrong(path, f"has no array '{min(absent)}'; expected X [N, D] and ids [N]")
            x, ids = stored["X"], stored["ids"]
    except (OSError, EOFError, KeyError, SyntaxError, zipfile.BadZipFile, NotImplementedError) as error:
        raise wrong(path, f"cannot be read as a NumPy archive: {error}") from None
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise wrong(path, f"cannot be read as a NumPy archive: {error}") from None
    if x.ndim != 2 or x.dtype.kind != "f" or ids.shape != (len(x),) or ids.dtype.kind != "U":
        raise wrong(path, f"holds X {x.shape} {x.dtype} and ids {ids.shape} {ids.dtype}; expected numbers and texts")
    if not np.isfinite(x).all():
        raise wrong(path, "some features are not finite numbers")
    names = ids.tolist()
    if len(set(names)) < len(names):
        raise wrong(path, "some ids are there twice; expected each item once")
    return x, names
