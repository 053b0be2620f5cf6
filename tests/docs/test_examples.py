"""The examples run, and use nothing but what is public."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import raretag

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
QUICK = [path for path in EXAMPLES if path.stem != "demo"]


@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raretag"):
            package = raretag if node.module == "raretag" else getattr(raretag, node.module.removeprefix("raretag."))
            assert {alias.name for alias in node.names} <= set(dir(package))
