"""Texts with label numbers: `text<TAB>3,17<TAB>id` on each line."""

from __future__ import annotations

from pathlib import Path

from raretag.data.reading.bounded import lines, shown, whole, wrong


def texts(path: Path, labels: int) -> tuple[list[str], list[str], list[list[int]]]:
    """Ids, texts and label numbers."""
    found: dict[str, tuple[str, list[int]]] = {}
    for number, line in lines(path, longest=1 << 20):
        words = line.split("\t")
        if len(words) != 3 or not words[2].strip():
            raise wrong(path, f"{shown(line)} has {len(words)} columns; expected text, label numbers and id", number)
        name = words[2].strip()
        if name in found:
            raise wrong(path, f"the id {shown(name)} was there before; expected each once", number)
        found[name] = (words[0], [whole(path, word.strip(), number, "a label", labels) for word in words[1].split(",")])
    return list(found), [text for text, _ in found.values()], [row for _, row in found.values()]
