"""A published list of images with label indices: {"image_ids": [...], "labels": [[...], ...]}."""

from __future__ import annotations

import json
from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.reading.bounded import MEGABYTE, text, wrong


def labelled_ids(path: Path, labels: int) -> tuple[list[str], list[list[int]]]:
    try:
        content = json.loads(text(path, 64 * MEGABYTE))
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
