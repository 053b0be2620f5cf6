"""The notebooks run from top to bottom, use public names only, and keep their pictures."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import raretag

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def cells(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def code(path):
    return "\n".join("".join(cell["source"]) for cell in cells(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    pytest.importorskip("matplotlib")
    script = "import matplotlib\nmatplotlib.use('agg')\n" + code(path)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_its_pictures_and_no_paths_of_a_machine(path):
    pictures = [out for cell in cells(path) for out in cell["outputs"] if "image/png" in out.get("data", {})]
    assert pictures
    assert "/site-packages/" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_public_names_only(path):
    for node in ast.walk(ast.parse(code(path))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raretag"):
            assert node.module == "raretag"
            assert {alias.name for alias in node.names} <= set(dir(raretag))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "raretag":
            assert node.attr in dir(raretag)
