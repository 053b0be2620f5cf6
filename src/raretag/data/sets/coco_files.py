"""Files with the labels of COCO images: the instances file of a part, and the published list of COCO-MLT."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError
from raretag.data.files import MEGABYTE, read_text, shown, wrong


@dataclass(frozen=True)
class Instances:
    """The image-level labels of an instances file."""

    files: list[str]  # the file name of each image
    names: list[str]  # categories, in the order of their ids
    rows: list[list[int]]  # the categories of each image, as places in `names`


def read_instances(path: Path, limit: int = 2048 * MEGABYTE) -> Instances:
    """All images of a file, also those without an object.

    A box without area or with a side under one pixel does not count; crowds do, as in the DB-loss authors' code.
    """
    try:
        content = json.loads(read_text(path, limit), object_hook=_small)
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise wrong(path, f"holds a {type(content).__name__}; expected an object with images, annotations, categories")
    images = _pairs(path, content, "images", "image")
    categories = _pairs(path, content, "categories", "category")
    place = {category: label for label, category in enumerate(sorted(categories))}
    row = {image: number for number, image in enumerate(images)}
    rows: list[set[int]] = [set() for _ in images]
    for number, found in enumerate(_list(path, content, "annotations")):
        if not isinstance(found, _Annotation):
            raise wrong(path, f"annotation {number} is {shown(str(found))}; expected image_id, category_id and bbox")
        if found.image not in row or found.category not in place:
            what = f"image {found.image}" if found.image not in row else f"category {found.category}"
            raise wrong(path, f"annotation {number} is of {what}, which the file does not list")
        if found.counts:
            rows[row[found.image]].add(place[found.category])
    files, names = list(images.values()), [categories[category] for category in sorted(categories)]
    for what, words in (("file name", files), ("category name", names)):
        if len(set(words)) < len(words):
            raise wrong(path, f"some {what} is there twice; expected each once")
    return Instances(files, names, [sorted(labels) for labels in rows])


@dataclass(frozen=True, slots=True)
class _Annotation:
    image: int
    category: int
    counts: bool


def _small(found: dict[str, Any]) -> object:
    """Keep of an annotation what is needed, while the file is parsed: outlines are most of it."""
    if "category_id" in found and "image_id" in found:
        image, category, box = found["image_id"], found["category_id"], found.get("bbox")
        if type(image) is not int or type(category) is not int:
            return found
        if box is None:
            return _Annotation(image, category, True)
        if not isinstance(box, list) or len(box) != 4 or not all(type(side) in (int, float) for side in box):
            return found
        area = found.get("area", 1)
        return _Annotation(image, category, min(box[2:]) >= 1 and type(area) in (int, float) and area > 0)
    return found


def _list(path: Path, content: dict[str, Any], key: str) -> list[Any]:
    value = content.get(key)
    if not isinstance(value, list):
        raise wrong(path, f"has no list '{key}'; expected the instances file of COCO")
    return value


def _pairs(path: Path, content: dict[str, Any], key: str, what: str) -> dict[int, str]:
    """id -> name of a list of objects."""
    field = "file_name" if what == "image" else "name"
    found: dict[int, str] = {}
    for number, entry in enumerate(_list(path, content, key)):
        known = isinstance(entry, dict) and type(entry.get("id")) is int and isinstance(entry.get(field), str)
        if not known:
            raise wrong(path, f"{what} {number} is {shown(str(entry))}; expected a whole number `id` and a `{field}`")
        if entry["id"] in found:
            raise wrong(path, f"{what} {number} has the id {entry['id']}, which another one has; expected each once")
        found[entry["id"]] = entry[field]
    if not found:
        raise wrong(path, f"lists no {what}")
    return found


def read_labelled_ids(path: Path, labels: int) -> tuple[list[str], list[list[int]]]:
    """A published list of images with label indices: {"image_ids": [...], "labels": [[...], ...]}."""
    try:
        content = json.loads(read_text(path, 64 * MEGABYTE))
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"is not JSON: {error}") from None
    ids = content.get("image_ids") if isinstance(content, dict) else None
    rows = content.get("labels") if isinstance(content, dict) else None
    if not isinstance(ids, list) or not isinstance(rows, list) or len(ids) != len(rows) or not ids:
        raise wrong(path, "expected an object with the lists `image_ids` and `labels`, one entry each for an image")
    if not all(isinstance(name, str) and name.isalnum() for name in ids) or len(set(ids)) < len(ids):
        raise wrong(path, "an image id is there twice or is not a plain text of letters and digits")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or not all(type(label) is int and 0 <= label < labels for label in row):
            raise wrong(path, f"the labels of image {number} are not a list of numbers from 0 to {labels - 1}")
    return ids, rows
