"""Doctest examples in docstrings become blocks of code in the API reference; Markdown would quote them three times."""

from __future__ import annotations

import re

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?|^\.\.\..*\n?)*)+", re.MULTILINE)


class FencedExamples(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring and ">>>" in obj.docstring.value:
            text = EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = text
