"""The objects of a PASCAL VOC annotation file."""

from __future__ import annotations

from pathlib import Path

from raretag.data.reading.bounded import shown, wrong
from raretag.data.reading.xml import parse


def objects(path: Path) -> list[tuple[str, bool]]:
    """The class of each object, and whether it is marked as difficult."""
    root = parse(path)
    if root.tag != "annotation":
        raise wrong(path, f"the first element is <{root.tag}>; expected the <annotation> of a VOC devkit")
    found = []
    for element in root.findall("object"):  # its direct children only: body parts have a <name> of their own
        name, difficult = element.findtext("name", "").strip(), element.findtext("difficult", "0").strip()
        if not name:
            raise wrong(path, "an <object> has no <name>; expected the name of its class")
        if difficult not in ("0", "1"):
            raise wrong(path, f"<difficult> is {shown(difficult)}; expected 0 or 1")
        found.append((name, difficult == "1"))
    return found
