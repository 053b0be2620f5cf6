"""A label store as a folder of .npy files, mapped into memory when it is read."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.labels.entries import Entries
from raretag.labels.rows import Ints, Rows

_CARD = "labels.json"
_FORMAT = 1


class Texts(Sequence[str]):
    """Many texts in two arrays; a text is decoded when it is asked for."""

    def __init__(self, ends: Ints, utf8: NDArray[np.uint8]) -> None:
        self.ends, self.utf8 = ends, utf8

    @classmethod
    def of(cls, words: Sequence[str]) -> Texts:
        coded = [word.encode("utf-8", "surrogatepass") for word in words]
        ends = np.cumsum([0, *map(len, coded)], dtype=np.int64)
        return cls(ends, np.frombuffer(b"".join(coded), np.uint8))

    def __len__(self) -> int:
        return len(self.ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return tuple(self[i] for i in range(len(self))[place])
        place = range(len(self))[place]  # negative places, and IndexError beyond the end
        return self.utf8[self.ends[place] : self.ends[place + 1]].tobytes().decode("utf-8", "surrogatepass")


def save(folder: Path, entries: Entries, names: Sequence[str] | None, ids: Sequence[str] | None) -> None:
    if folder.exists() and not (folder / _CARD).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not a label store; choose another folder, it would be replaced")
    named = entries.arrays()
    if ids is not None:
        texts = Texts.of(ids)
        named |= {"ids.ends": texts.ends, "ids.utf8": texts.utf8}
    card = {
        "format": _FORMAT,
        "items": len(entries),
        "labels": entries.labels,
        "absent": entries.absent,
        "names": names,
        "arrays": {name: {"type": array.dtype.str, "shape": array.shape} for name, array in named.items()},
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}.new")
    new.mkdir()
    try:
        for name, array in named.items():
            with (new / f"{name}.npy").open("wb") as file:
                np.save(file, array, allow_pickle=False)
                _flush(file.fileno())
        with (new / _CARD).open("w", encoding="utf-8") as file:
            json.dump(card, file)
            file.flush()
            _flush(file.fileno())
        _flush_folder(new)
        _replace(folder, new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _replace(folder: Path, new: Path) -> None:
    """Put the complete new folder in place of the old one, if there is one, and only then remove that."""
    old = new.with_suffix(".old")
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        if old.exists():
            old.rename(folder)
        raise
    _flush_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _flush(descriptor: int) -> None:
    os.fsync(descriptor)


def _flush_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _flush(descriptor)
        finally:
            os.close(descriptor)


def load(folder: Path) -> tuple[Entries, tuple[str, ...] | None, Sequence[str] | None]:
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{folder} is not a label store: it has no {_CARD}; expected a folder that save() wrote"
        ) from None
    except ValueError as error:
        raise UserError(f"{folder / _CARD} is damaged ({error}); expected JSON that save() wrote") from None
    if not isinstance(card, dict) or card.get("format") != _FORMAT:
        raise UserError(f"{folder / _CARD} is not of format {_FORMAT}; was it written by another version of raretag?")
    found = {name: _map(folder / f"{name}.npy", form) for name, form in card["arrays"].items()}
    items, labels = card["items"], card["labels"]
    positives = _rows(folder, "positives", found, items)
    listed = _rows(folder, "listed", found, items) if "listed.indptr" in found else None
    bits = found.get("bits")
    if bits is not None and bits.shape != (items, (labels + 7) // 8):
        raise UserError(f"{folder / 'bits.npy'} has shape {bits.shape}, which does not fit {items} x {labels} labels")
    names = None if card["names"] is None else tuple(card["names"])
    ids = Texts(found["ids.ends"], found["ids.utf8"]) if "ids.ends" in found else None
    for what, words, size in (("names", names, labels), ("ids", ids, items)):
        if words is not None and len(words) != size:
            raise UserError(f"{folder} holds {len(words)} {what} for {size}; were files of two stores mixed?")
    return Entries(positives, labels, card["absent"], listed, bits), names, ids


def _map(path: Path, form: dict[str, Any]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; the store is incomplete, save it again") from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{path} is damaged or cut short ({error}); save the store again") from None
    if array.dtype.str != form["type"] or list(array.shape) != form["shape"]:
        raise UserError(
            f"{path} holds {array.dtype.str} {list(array.shape)}; {_CARD} says {form['type']} {form['shape']}: "
            "were files of two stores mixed?"
        )
    return array


def _rows(folder: Path, name: str, found: dict[str, NDArray[Any]], items: int) -> Rows:
    try:
        indptr, indices = found[f"{name}.indptr"], found[f"{name}.indices"]
    except KeyError as error:
        raise UserError(f"{folder / _CARD} does not mention {error}; the store is incomplete, save it again") from None
    if len(indptr) != items + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise UserError(f"{folder}: {name}.indptr does not fit {items} items and {len(indices)} labels; mixed files?")
    return Rows(indptr, indices)
