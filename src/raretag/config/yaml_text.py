"""YAML that somebody else wrote: plain values only, of bounded size and depth once its references are followed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from raretag.core.errors import UserError

MOST_BYTES = 1 << 20
MOST_VALUES = 20_000  # with those that a reference (`*name`) repeats; a configuration has about a hundred
DEEPEST = 32


def read_yaml(file: Path) -> Any:
    """What a file holds; a mistake in it is one line."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(f"is larger than {MOST_BYTES:,} bytes; is it a configuration?")
        return values(data.decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"'{file}' cannot be read: {error.strerror}") from None
    except UserError as error:
        raise UserError(f"'{file}': {error}") from None
    except Exception as error:  # also the library's own mistakes with strange values, such as the date 2024-13-45
        raise UserError(f"'{file}' is not a YAML file: {sentence(error)}") from None


class _Loader(yaml.SafeLoader):
    """Stops at the first value that is too deep: the library's time grows with the square of the depth."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UserError(f"is nested more than {DEEPEST} deep")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def values(text: str) -> Any:
    """The plain values of a text. May raise whatever the library raises."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def sentence(error: Exception) -> str:
    """One line, not too long."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) < 300 else f"{words[:300]}..."


def _check(top: yaml.Node) -> None:
    """Count values as if every reference were written out: a few lines can stand for 10^11 of them."""
    known: dict[int, tuple[int, int]] = {}  # how many values there are in a node, and how deep they lie
    unfinished: set[int] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        if id(node) in unfinished:
            raise UserError("a value refers to itself")
        if id(node) not in known:
            unfinished.add(id(node))
            inner = [measure(one) for one in _inner(node)]
            unfinished.remove(id(node))
            known[id(node)] = 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)
        return known[id(node)]

    size, depth = measure(top)
    if depth > DEEPEST:
        raise UserError(f"is nested more than {DEEPEST} deep")
    if size > MOST_VALUES:
        raise UserError(f"stands for more than {MOST_VALUES:,} values; is it a configuration?")


def _inner(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
