"""What `import raretag` offers: all of it, by name, without waiting for torch, and as the page says."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import raretag
from support.paths import SOURCE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "public-api.md").read_text(encoding="utf-8")
ROOMS = (
    "annotation",
    "huggingface",
    "lightning",
    "methods",
    "metrics",
    "objective",
    "ray",
    "sampling",
    "sklearn",
    "streamed",
)


def test_the_page_is_as_the_code_is():
    done = subprocess.run([sys.executable, "docs/public_api.py", "--check"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there_and_on_the_page():
    assert set(dir(raretag)) == set(raretag.__all__)
    for name in dir(raretag):
        assert getattr(raretag, name) is not None
        assert f"`raretag.{name}`" in PAGE or f"## raretag.{name}\n" in PAGE


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_room_is_there_and_explained(room):
    package = getattr(raretag, room)
    assert set(package.__all__) == set(dir(package))
    for name in package.__all__:
        thing = getattr(package, name)
        assert f"| `{name}` |" in PAGE
        assert not (inspect.isclass(thing) or inspect.isfunction(thing)) or inspect.getdoc(thing)


def test_a_metric_is_a_function_and_not_the_module_it_lives_in():
    importlib.import_module("raretag.metrics.evaluation")
    assert all(callable(getattr(raretag.metrics, name)) for name in dir(raretag.metrics))


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_type_checkers_see_what_is_loaded_late(room):
    """The names of the TYPE_CHECKING block are those that `__getattr__` finds."""
    file = SOURCE / room / "__init__.py"
    tree = ast.parse((file if file.exists() else SOURCE / f"{room}.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    homes = {
        alias.name: f"{node.module}.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    package = importlib.import_module(f"raretag.{room}".rstrip("."))
    assert set(homes) == set(package.__all__) - {"__version__"}
    for name, home in homes.items():
        module, _, attribute = home.rpartition(".")
        assert getattr(importlib.import_module(module), attribute) is getattr(package, name)


@pytest.mark.parametrize(
    "code", ["dir(raretag)", "raretag.methods, dir(raretag.metrics)", "raretag.sampling, raretag.objective"]
)
def test_a_look_around_loads_no_torch(code):
    heavy = "{'torch', 'numpy', 'scipy', 'sklearn'} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, raretag; {code}; assert not {heavy}, {heavy}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'raretag' has no attribute 'focal'"):
        raretag.focal  # noqa: B018
