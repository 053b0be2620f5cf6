"""Who may import whom, how long a file may be, and what a start may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import SOURCE

MAY_IMPORT = {
    "core": set(),
    "labels": {"core"},
    "sampling": {"core"},
    "models": {"core"},
    "objective": {"core"},
    "metrics": {"core"},
    "streamed": {"core", "labels", "objective", "methods"},  # knows cross entropy and one sampled method by heart
    "data": {"core", "labels"},
    "report": {"core", "metrics", "data", "runs"},  # opens finished runs and the items behind them
    "methods": {"core", "objective", "sampling", "models"},
    "solvers": {"core", "objective", "models"},
    "engine": {"core", "labels", "metrics"},
    "suggest": {"core", "config", "labels", "data", "engine", "runs"},  # writes answers back into tables
    # reads new items as `data` reads those of training, and rebuilds the model as `engine` builds it
    "serve": {"core", "labels", "metrics", "data", "engine"},
}
MAY_IMPORT["recommend"] = {"core", "labels", "metrics", "engine"}  # runs candidates and compares them
MAY_IMPORT["figures"] = {"core", "config", "labels", "data", "engine"}  # reads runs, and makes their data and models again
MAY_IMPORT["bench"] = set(MAY_IMPORT)
MAY_IMPORT["cli"] = set(MAY_IMPORT)
FILES = sorted(SOURCE.rglob("*.py"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))


def imported(path: Path) -> set[str]:
    """The full names of our own modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute in this house"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("raretag.")}


@every_file
def test_imports_only_what_its_room_allows(path):
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1:  # the package itself and __main__ are the front door
        return
    rooms = {name.split(".")[1] for name in imported(path)} & set(MAY_IMPORT)
    assert rooms - {parts[0]} <= MAY_IMPORT[parts[0]]


def test_methods_do_not_know_each_other():
    for path in (SOURCE / "methods").glob("*.py"):
        others = {name for name in imported(path) if name.startswith("raretag.methods.")}
        assert not others, f"{path.name} imports {others}: move what they share to `objective`, or build it by name"


@every_file
def test_fits_on_a_few_screens(path):
    assert len(path.read_text().splitlines()) <= 350


@every_file
def test_room_has_a_name_of_its_own(path):
    assert path.stem not in {"utils", "helpers", "common", "misc"}


@pytest.mark.parametrize(
    "command", [["--help"], ["train", "--help"], ["list", "methods"], ["list", "data", "--plain"], ["list", "figures"]]
)
def test_a_start_without_work_does_not_load_torch(command):
    code = (
        "import sys; from raretag.cli.main import app\n"
        f"try: app({command!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'lightning_fabric'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
