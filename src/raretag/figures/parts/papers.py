"""Which drawing shows which figure of a paper. Reads the modules as text, so that listing loads nothing."""

from __future__ import annotations

import ast
from typing import Any

from raretag.core import registry as registry
from raretag.core.errors import UserError


def numbers() -> dict[str, tuple[str, dict[str, Any]]]:
    """`plm-4`: the drawing `per_class`, and its options."""
    found = {}
    for name, target in registry.table("figures").items():
        for node in ast.parse(registry.text_of(target)).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAPERS":
                found |= {number: (name, options) for number, options in ast.literal_eval(node.value).items()}
    return found


def find(word: str) -> tuple[str, dict[str, Any]]:
    """A drawing and its options, by its own name or by the number of a figure."""
    known = numbers()
    if word in known:
        return known[word]
    names = registry.names("figures")
    if word not in names:
        near = registry.nearest(word, [*names, *known])
        raise UserError(f"there is no figure '{word}'; {near}")
    return word, {}
