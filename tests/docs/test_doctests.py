"""The examples in docstrings are run."""

from __future__ import annotations

import doctest
import importlib
import warnings

import pytest

from support.paths import SOURCE

FILES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]


def module_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_give_what_they_show(path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed, tried = doctest.testmod(module_of(path))
    assert tried
    assert not failed, capsys.readouterr().out


def test_there_are_many_of_them():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [one for path in FILES for one in finder.find(module_of(path)) if one.examples]
    assert len(examples) >= 90
