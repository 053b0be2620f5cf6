"""Read files that somebody else made: bounded memory, UTF-8 only, and mistakes that say where they are."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from raretag.core.errors import UserError

MEGABYTE = 1 << 20
LONGEST_LINE = 16 * MEGABYTE  # bytes; a dense row of a million numbers
UNPACKED_ALWAYS = 64 * MEGABYTE  # a gzip file may always grow to this,
UNPACKED_RATIO = 100  # and beyond it to this multiple of its size on disk; text packs 3 to 30 times

_BROKEN = (OSError, EOFError, zlib.error)


def wrong(path: Path, message: str, line: int | None = None) -> UserError:
    """The one sentence about a mistake in a file."""
    place = f"'{path}'" if line is None else f"'{path}', line {line}"
    return UserError(f"{place}: {message}")


def shown(text: str | bytes, length: int = 60) -> str:
    """A piece of a strange file that is short enough for a message."""
    return repr(text) if len(text) <= length else f"{text[:length]!r}... ({len(text):,} long)"


def read(path: Path, limit: int) -> bytes:
    """A whole file, unpacked if it is gzipped; refused if it is empty or holds more than `limit` bytes."""
    try:
        with path.open("rb") as raw, _unpacked(raw) as stream:
            allowed = min(limit, _allowed(raw))
            data = stream.read(allowed + 1)
    except _BROKEN as error:
        raise _unreadable(path, error) from None
    if not data:
        raise wrong(path, "the file is empty; was the download interrupted?")
    if len(data) > allowed:
        raise wrong(path, f"holds more than {allowed:,} bytes, too much for what it should be; is it damaged?")
    return data


def text(path: Path, limit: int) -> str:
    """A whole file as text."""
    data = read(path, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(path, data.count(b"\n", 0, error.start) + 1, data[error.start]) from None


def lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines without their ends, one at a time; a gzipped file is unpacked on the way."""
    number = total = 0
    try:
        with path.open("rb") as raw, _unpacked(raw) as stream:
            allowed = _allowed(raw)
            while line := stream.readline(longest + 1):
                number += 1
                total += len(line)
                if len(line) > longest:
                    raise wrong(path, f"the line is longer than {longest:,} bytes; is this a text file?", number)
                if total > allowed:
                    raise wrong(path, f"unpacks to more than {allowed:,} bytes, too much for its size; is it damaged?")
                try:
                    decoded = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise _not_utf8(path, number, line[error.start]) from None
                yield number, (decoded.removeprefix("\ufeff") if number == 1 else decoded).rstrip("\r\n")
    except _BROKEN as error:
        raise _unreadable(path, error) from None
    if not number:
        raise wrong(path, "the file is empty; was the download interrupted?")


def whole(path: Path, word: str, line: int, what: str, below: int, first: int = 0) -> int:
    """A whole number from a file, `first <= number < below`."""
    if len(word) <= 20 and word.isascii() and word.isdigit() and first <= (number := int(word)) < below:
        return number
    raise wrong(path, f"{what} is {shown(word)}; expected a whole number from {first} to {below - 1}", line)


def inside(folder: Path, name: str, path: Path, line: int | None = None) -> Path:
    """The file called `name` in a folder; a name that leads out of the folder is refused. `path` is who said it."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(sign in name for sign in "\\:\0\n"):
        raise wrong(path, f"the file name {shown(name)} leads out of the folder or is none", line)
    return folder / name


def _unpacked(raw: BinaryIO) -> BinaryIO:
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[return-value]


def _allowed(raw: BinaryIO) -> int:
    """How many bytes may come out of a file: as many as it has, or more if it is packed."""
    place = raw.tell()
    size = raw.seek(0, 2)
    raw.seek(place)
    return max(UNPACKED_ALWAYS, UNPACKED_RATIO * size)


def _not_utf8(path: Path, line: int, byte: int) -> UserError:
    return wrong(path, f"holds the byte 0x{byte:02x}, which is not UTF-8 text; save the file as UTF-8", line)


def _unreadable(path: Path, error: BaseException) -> UserError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return wrong(path, f"cannot be read: {reason or type(error).__name__}")
