"""Lists of items with their label indices: `name,3 17 40` on each line, as published for COCO and NUS-WIDE."""

from __future__ import annotations

import re
from pathlib import Path

from raretag.data.reading.bounded import lines, shown, whole, wrong


def label_list(path: Path, labels: int) -> tuple[list[str], list[list[int]]]:
    """Item names and the indices of their labels, below `labels`. Some published lists write an index as `2.`"""
    rows: dict[str, list[int]] = {}
    for number, line in lines(path):
        name, comma, words = line.partition(",")
        name = name.strip()
        if not comma or not name:
            raise wrong(path, f"{shown(line)} is not understood; expected `name,label indices`", number)
        if name in rows:
            raise wrong(path, f"the item {shown(name)} was listed before; expected each item once", number)
        rows[name] = [whole(path, word.removesuffix("."), number, "a label", labels) for word in words.split()]
    return list(rows), list(rows.values())


def names(path: Path, what: str = "item", allowed: str = ".+") -> list[str]:
    """One name a line, each once; blank lines are skipped. `allowed` is what a whole name must match."""
    pattern = re.compile(allowed)
    found: dict[str, int] = {}
    for number, line in lines(path, longest=1 << 16):
        name = line.strip()
        if name in found:
            raise wrong(path, f"the {what} {shown(name)} is on line {found[name]} too; expected each once", number)
        if name and not pattern.fullmatch(name):
            raise wrong(
                path, f"{shown(name)} is not understood; expected the name of one {what} and nothing else", number
            )
        if name:
            found[name] = number
    if not found:
        raise wrong(path, f"names no {what}; expected one a line")
    return list(found)
