"""The manifest of a run folder: a checksum of every file that the run wrote, and what its data held.

`manifest.json` is there from the first moment of a run, so that one that was killed can be continued with the same data
only, and names all files of a finished one. A file that was changed since, by hand or by a disk, is noticed when it is
opened. That guards against accidents; whoever forges a file can write its checksum too.

Files that are made to be changed or that others read (suggestions, answers, reports, exports, TensorBoard) are not in
it, and checkpoints have a checksum of their own. Folders of older runs have no manifest and are opened without a check.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raretag.core.errors import UserError
from raretag.core.files import replacing, write_json

FILE = "manifest.json"
FORMAT = "raretag run 1"
CONFIG = "config.yaml"
Content = Mapping[str, str | None]  # see data/fingerprint.py


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def read(folder: Path | str) -> dict[str, Any] | None:
    """What the manifest says; None for a folder that has none."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise UserError(f"'{path}' is damaged ({error}); without it files of the run cannot be checked") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("files"), dict):
        raise UserError(f"'{path}' is not the manifest of a run, or that of another version; expected '{FORMAT}'")
    return found


def write(folder: Path, content: Content | None, checksums: Mapping[str, str]) -> None:
    """All of it, or nothing. `content`: what the data holds, where it is known."""
    files = {name: [checksum] for name, checksum in sorted(checksums.items())}
    write_json(folder / FILE, {"format": FORMAT, "data": dict(content or {}), "files": files})


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Of those that are there."""
    return {name: sha256(folder / name) for name in names if (folder / name).is_file()}


def data_of(folder: Path | str) -> dict[str, str | None]:
    """What the data of a run held when it was trained; empty for a run that did not say."""
    found = read(folder)
    return dict(found.get("data") or {}) if found is not None else {}


@contextmanager
def rewriting(path: Path) -> Iterator[Path]:
    """Replace a file that is in the manifest. Whenever this is interrupted, file and manifest fit each other."""
    found = read(path.parent)
    with replacing(path) as new:
        yield new
        if found is not None:  # both the old and the new file are right until the new one has its name
            before, after = found["files"].get(path.name, []), sha256(new)
            found["files"][path.name] = [*before[-1:], after]
            write_json(path.parent / FILE, found)
    if found is not None:
        found["files"][path.name] = [after]
        write_json(path.parent / FILE, found)


def edited(folder: Path | str, names: Iterable[str] | None = None) -> list[str]:
    """Those files of a run that are not as the run wrote them, or are gone; of all in the manifest, unless named."""
    found = read(folder)
    if found is None:
        return []
    files = found["files"]
    wrong = []
    for name in files if names is None else [name for name in names if name in files]:
        path = Path(folder) / name
        if not path.is_file() or sha256(path) not in files[name]:
            wrong.append(name)
    return wrong


def refuse_edited(folder: Path | str, *names: str) -> None:
    """Before something is made of files that nobody looks into, such as tensors."""
    wrong = edited(folder, names)
    if wrong:
        raise UserError(
            f"'{Path(folder) / wrong[0]}' is not the file that the run wrote (its checksum in {FILE} differs): it was "
            "changed or damaged; restore it from a copy, or train again"
        )


def sentence(name: str) -> str:
    """For those who read a run that somebody else has touched."""
    return f"{name} is not as the run wrote it: it was edited, damaged or removed since"
