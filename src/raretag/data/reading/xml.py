"""Small XML files without the parts of XML that can hurt: no document types, so no entities; bounded size and
depth."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from raretag.core.errors import UserError
from raretag.data.reading.bounded import MEGABYTE, read, wrong

DEEPEST = 32


def parse(path: Path, limit: int = 4 * MEGABYTE) -> Element:
    """The root element of a file."""
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
    except (LookupError, ValueError) as error:  # an encoding that nobody knows
        raise wrong(path, f"is not valid XML: {error}") from None
    return builder.close()
