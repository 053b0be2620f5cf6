"""The examples run, and use nothing but what is public."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import raretag

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
PACKAGES = {  # that an example needs beside what raretag itself needs
    "with_accelerate": "accelerate",
    "with_huggingface": "transformers",
    "with_lightning": "lightning",
    "with_ray": "ray",
    "with_skorch": "skorch",
}
QUICK = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.integration] if path.stem in PACKAGES else [])
    for path in EXAMPLES
    if path.stem not in ("demo", "photos_without_raretag")  # the latter is run by tests/serve/test_export.py
]


@pytest.mark.parametrize("path", QUICK)
def test_an_example_runs(path, tmp_path):
    if path.stem in PACKAGES:
        pytest.importorskip(PACKAGES[path.stem])
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raretag"):
            package = raretag if node.module == "raretag" else getattr(raretag, node.module.removeprefix("raretag."))
            assert {alias.name for alias in node.names} <= set(dir(package))
