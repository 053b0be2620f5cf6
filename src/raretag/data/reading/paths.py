"""Paths out of a file that somebody else may have written: they stay inside the data folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from raretag.core.errors import UserError


def inside(folder: Path, names: Sequence[str], place: Callable[[int], str], *, allow_outside: bool) -> list[str]:
    """The full path of each name; one that leaves the folder, also through a link, is an error unless allowed."""
    root = os.path.realpath(folder)
    real: dict[str, str] = {}  # folders, each looked up once
    found = []
    for row, name in enumerate(names):
        if not name.strip() or "\x00" in name:
            raise UserError(f"{place(row)}: {name!r} is not a path of an image")
        path = os.path.join(root, name.strip())
        parent, last = os.path.split(path)
        if last in ("", ".", ".."):
            raise UserError(f"{place(row)}: {name!r} is not a path of an image")
        if not allow_outside:
            if parent not in real:
                real[parent] = os.path.realpath(parent)
            target = os.path.join(real[parent], last)
            if os.path.islink(target):
                target = os.path.realpath(target)
            if os.path.commonpath([root, target]) != root:
                raise UserError(
                    f"{place(row)}: {name!r} leaves the folder '{folder}'; "
                    "name the folder of the images (data.folder), or say data.allow_outside=true"
                )
        found.append(path)
    return found
