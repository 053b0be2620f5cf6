"""Who may import whom, how long a file may be, and what a start may load."""

from __future__ import annotations

import ast
import pkgutil
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import REPOSITORY, SOURCE

FILES = sorted(SOURCE.rglob("*.py"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))


def table() -> dict[str, set[str]]:
    """The table of rooms in ARCHITECTURE.md: which rooms each may import."""
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    rooms = {room for room, _ in rows}
    special = {"-": set(), "everything": rooms, "all but cli": rooms - {"cli"}}
    return {
        room: special[allowed] if allowed in special else set(allowed.split(";")[0].split(", ")) - {""}
        for room, allowed in rows
    }


MAY_IMPORT = table()


def imported(path: Path) -> set[str]:
    """The full names of our own modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("raretag.")}


def test_every_room_is_in_the_table():
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(MAY_IMPORT)
    assert all(allowed <= folders for allowed in MAY_IMPORT.values())


def test_nothing_flows_up_the_table():
    rooms = list(MAY_IMPORT)
    for place, room in enumerate(rooms):
        assert MAY_IMPORT[room] - {room} <= set(rooms[:place]), f"{room} may import a room below it"


@every_file
def test_imports_only_what_its_room_allows(path):
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1:  # the front door
        return
    rooms = {name.split(".")[1] for name in imported(path)} & set(MAY_IMPORT)
    assert rooms - {parts[0]} <= MAY_IMPORT[parts[0]]


def exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples"])
def test_scripts_import_names_that_exist(folder):
    """They run too seldom for anybody to notice that a name has moved."""
    names = {name: path.name for path in sorted((REPOSITORY / folder).rglob("*.py")) for name in imported(path)}
    assert [f"{file}: {name}" for name, file in sorted(names.items()) if not exists(name)] == []


def test_methods_do_not_know_each_other():
    for path in (SOURCE / "methods").glob("[!_]*.py"):
        others = {name for name in imported(path) if name.startswith("raretag.methods.")}
        assert not others, f"{path.name} imports {others}: move what they share to `objective`, or build it by name"


@every_file
def test_fits_on_a_few_screens(path):
    assert len(path.read_text().splitlines()) <= 350


def test_files_are_few_and_worth_opening():
    lengths = [len(path.read_text().splitlines()) for path in FILES]
    assert len(FILES) <= 330
    assert 80 <= statistics.median(lengths) <= 160


@every_file
def test_room_has_a_name_of_its_own(path):
    assert path.stem not in {"utils", "helpers", "common", "misc"}


def run(code: str, folder: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "command", [["--help"], ["train", "--help"], ["list", "methods"], ["list", "data", "--plain"], ["list", "figures"]]
)
def test_a_start_without_work_does_not_load_torch(command):
    run(
        "import sys; from raretag.cli.main import app\n"
        f"try: app({command!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'lightning_fabric'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a small table and a run on it, and the files of ours that were executed on the way."""
    folder = tmp_path_factory.mktemp("traced")
    lines = [
        f"{'fast red car' if n % 2 else 'slow green tree'} {n % 7},{'car' if n % 2 else 'tree'}" for n in range(80)
    ]
    (folder / "my.csv").write_text("text,tags\n" + "\n".join(lines) + "\n")
    executed = run(
        "import sys\n"
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"  # the same with and without a text encoder on this machine
        "importlib.util.find_spec = lambda name, *more: None if name.startswith('gt_all') else find(name, *more)\n"
        "found = set()\n"
        "def profile(frame, event, argument):\n"
        "    name = frame.f_code.co_filename\n"
        "    if event == 'call' and '/raretag/' in name and frame.f_code.co_name[0] != '<':\n"
        "        found.add((name, frame.f_code.co_name, frame.f_code.co_flags & 2))\n"
        "sys.setprofile(profile)\n"
        "from raretag.cli.main import app\n"
        "try: app(['train', '--data', 'my.csv', '--out', 'run'])\n"
        "except SystemExit: pass\n"
        "sys.setprofile(None)\n"
        "print('EXECUTED', *sorted({name for name, _, optimized in found if optimized}))",
        folder,
    )
    return folder, executed.split("EXECUTED")[1].split()


def test_a_default_run_walks_through_few_files(trained):
    _, executed = trained
    assert len(executed) <= 81, "\n".join(executed)  # the last one where a fold takes long enough to be kept


def test_predicting_loads_neither_the_engine_nor_metrics(trained):
    folder, _ = trained
    loaded = (
        run(
            "import sys; from raretag.cli.main import app\n"
            "try: app(['predict', 'run', 'my.csv', '--out', 'p.csv'])\n"
            "except SystemExit: pass\n"
            "print('LOADED', *(name for name in sys.modules if name.startswith('raretag.')), \n"
            "      *({'lightning_fabric', 'tensorboard'} & set(sys.modules)))",
            folder,
        )
        .split("LOADED")[1]
        .split()
    )
    ours = [name for name in loaded if name.startswith("raretag.")]
    assert "lightning_fabric" not in loaded
    assert not [name for name in ours if name.startswith(("raretag.engine", "raretag.metrics."))]
    assert len(ours) <= 61, "\n".join(sorted(ours))
