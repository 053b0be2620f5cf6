"""Read files that somebody else made: bounded memory, UTF-8 only, paths that stay in their folder, and mistakes with
the place where they are."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from raretag.core.errors import UserError
from raretag.data import limits

MEGABYTE = 1 << 20
LONGEST_LINE = 16 * MEGABYTE  # bytes; a dense row of a million numbers, and more would fill the memory
DEEPEST = 32  # elements of XML inside each other

_BROKEN = (OSError, EOFError, zlib.error)


def wrong(path: Path, message: str, line: int | None = None) -> UserError:
    """The one sentence about a mistake in a file."""
    place = f"'{path}'" if line is None else f"'{path}', line {line}"
    return UserError(f"{place}: {message}")


def shown(value: object, length: int = 60) -> str:
    """A piece of a strange file, quoted and short enough for a message."""
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= length else f"{value[:length]!r}... ({len(value):,} long)"
    return cut(repr(value), length)


def cut(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


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


def read_text(path: Path, limit: int) -> str:
    """A whole file as text."""
    data = read(path, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _not_utf8(f"'{path}', line {line}", data[error.start]) from None


def lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines without their ends, one at a time; a gzipped file is unpacked on the way."""
    number = total = 0
    try:
        with path.open("rb") as raw, _unpacked(raw) as stream:
            allowed = _allowed(raw)
            for number, line in enumerate(_checked(stream, f"'{path}'", longest, "\n"), start=1):
                total += len(line)
                if total > allowed:
                    raise wrong(path, f"unpacks to more than {allowed:,} bytes, too much for its size; is it damaged?")
                yield number, line.rstrip("\r\n")
    except _BROKEN as error:
        raise _unreadable(path, error) from None
    if not number:
        raise wrong(path, "the file is empty; was the download interrupted?")


def lines_with_ends(path: Path) -> Iterator[str]:
    """The lines of a user's own table, with their ends, which may stand inside a quoted cell; never unpacked."""
    try:
        with path.open("rb") as raw:
            yield from _checked(raw, path.name, LONGEST_LINE, "")
    except OSError as error:
        raise _unreadable(path, error) from None


def _checked(stream: BinaryIO, name: str, longest: int, newline: str) -> Iterator[str]:
    """Decoded lines; refuses bytes that are not UTF-8 and lines without end."""
    with io.TextIOWrapper(cast(IO[bytes], stream), "utf-8-sig", errors="surrogateescape", newline=newline) as file:
        number = 0
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise UserError(f"{name}, line {number}: longer than {longest:,} bytes; is this a text file?")
            try:
                line.isascii() or line.encode()
            except UnicodeEncodeError as error:
                byte = ord(line[error.start]) - 0xDC00  # how `surrogateescape` keeps it
                raise _not_utf8(f"{name}, line {number}, character {error.start + 1}", byte) from None
            yield line


def whole(path: Path, word: str, line: int, what: str, below: int, first: int = 0) -> int:
    """A whole number from a file, `first <= number < below`."""
    if len(word) <= 20 and word.isascii() and word.isdigit() and first <= (number := int(word)) < below:
        return number
    raise wrong(path, f"{what} is {shown(word)}; expected a whole number from {first} to {below - 1}", line)


def inside(
    folder: Path,
    names: Sequence[str],
    place: Callable[[int], str],
    *,
    allow_outside: bool = False,
    published: bool = False,
) -> list[str]:
    """The full path of each name; a name that leads out of the folder is an error, unless that is allowed.

    Args:
        folder: where relative names begin.
        names: as a file that somebody else may have written gives them.
        place: where the name of a row stands, for the error.
        allow_outside: take any path, as the user has asked for.
        published: names of a published list. They must be plain (no `..`, drive or backslash); links in the folder are
            the user's own and may lead anywhere. Otherwise a link that leads out of the folder is an error too.
    """
    root = os.path.realpath(folder)
    real: dict[str, str] = {}  # folders, each looked up once
    found = []
    for row, name in enumerate(names):
        path = os.path.join(folder if published else root, name.strip())
        parent, last = os.path.split(path)
        if published and (not _is_plain(name) or last in ("", ".")):
            raise UserError(f"{place(row)}: the file name {shown(name)} leads out of the folder or is none")
        if not name.strip() or "\x00" in name or last in ("", ".", ".."):
            raise UserError(f"{place(row)}: {name!r} is not a path of an image")
        if not allow_outside and not published:
            if parent not in real:
                real[parent] = os.path.realpath(parent)
            target = os.path.join(real[parent], last)
            if os.path.islink(target):
                target = os.path.realpath(target)
            if os.path.commonpath([root, target]) != root:
                raise UserError(
                    f"{place(row)}: {name!r} leaves the folder '{folder}'; "
                    "name the folder of the images (data.folder), or set data.allow_outside=true"
                )
        found.append(path)
    return found


def _is_plain(name: str) -> bool:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        return False
    return not any(sign in name for sign in "\\:\0\n")


def read_names(path: Path, what: str = "item", allowed: str = ".+") -> list[str]:
    """One name per line, each once; blank lines are skipped. `allowed` is what a whole name must match."""
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
        raise wrong(path, f"names no {what}; expected one per line")
    return list(found)


def read_label_list(path: Path, labels: int) -> tuple[list[str], list[list[int]]]:
    """Lines `name,3 17 40`, as published for COCO and NUS-WIDE: item names and the indices of their labels.

    Indices are below `labels`. Some published lists write an index as `2.`
    """
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


def parse_xml(path: Path, limit: int = 4 * MEGABYTE) -> Element:
    """The root element of a small file, without the parts of XML that can hurt: no document types, so no entities;
    bounded size and depth."""
    data = read(path, limit)
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise wrong(path, f"elements are nested more than {DEEPEST} deep", parser.CurrentLineNumber)
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: object) -> None:
        raise wrong(path, "declares a document type; entities are not read, remove it", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except UserError:
        raise
    except expat.ExpatError as error:
        raise wrong(path, f"is not valid XML: {expat.ErrorString(error.code)}", error.lineno) from None
    except (LookupError, ValueError) as error:  # an unknown encoding
        raise wrong(path, f"is not valid XML: {error}") from None
    return builder.close()


def _unpacked(raw: BinaryIO) -> BinaryIO:
    packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[return-value]


def _allowed(raw: BinaryIO) -> int:
    """How many bytes may come out of a file: as many as it has, or more if it is packed."""
    place = raw.tell()
    size = raw.seek(0, 2)
    raw.seek(place)
    return max(size, limits.unpacked(size))


def _not_utf8(place: str, byte: int) -> UserError:
    return UserError(
        f"{place}: byte 0x{byte:02x} is not UTF-8; was it saved in another encoding? `iconv -t utf-8` converts it"
    )


def _unreadable(path: Path, error: BaseException) -> UserError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return wrong(path, f"cannot be read: {reason or type(error).__name__}")
