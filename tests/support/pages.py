"""The blocks of code in the Markdown pages, and whether a command in them is one that exists."""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from typer.main import get_command

from raretag.bench import extreme, plan
from raretag.cli.main import app
from raretag.config.settings import checked, compose, put
from raretag.core import registry
from raretag.figures import find as find_figure
from support.paths import REPOSITORY

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|(?<=\n))(?:^ {4}\S[^\n]*\n(?:^(?: {4}[^\n]*)?\n)*)+", re.MULTILINE)
EXEMPT = re.compile(r"<!-- not run: (\S[^>]*) -->\s*\Z")
ASSIGNED = re.compile(r"^[A-Z_]+=")
PROJECT = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
EXTRAS = set(
    re.findall(r"^(\w+) = \[", PROJECT.split("[project.optional-dependencies]")[1].split("\n[")[0], re.MULTILINE)
)


class Block(NamedTuple):
    page: str
    kind: str  # python, sh, yaml, toml, text; what is indented by four blanks is sh
    text: str
    exempt: str = ""  # why it is not run, as the page says in a comment above it


def blocks(page: Path) -> list[Block]:
    """Fenced and indented blocks, in the order of the page."""
    name, text = page.relative_to(REPOSITORY).as_posix(), page.read_text(encoding="utf-8")
    fences = list(FENCED.finditer(text))
    found = [(one.start(), {"bash": "sh"}.get(one[2], one[2]), one[3]) for one in fences]
    without = text
    for one in fences:  # the same length, so that places stay
        without = without[: one.start()] + re.sub(r"[^\n]", "x", one[0]) + without[one.end() :]
    for one in INDENTED.finditer(without):
        before = without[: one.start()].rstrip("\n").rpartition("\n")[2]
        if without[: one.start()].endswith("\n\n") or before.startswith("#"):
            found.append((one.start(), "sh", re.sub(r"^ {4}", "", one[0], flags=re.MULTILINE)))
    return [
        Block(name, kind, code, exempt[1] if (exempt := EXEMPT.search(text[:start])) else "")
        for start, kind, code in sorted(found)
    ]


def commands(block: Block) -> list[list[str]]:
    """The commands of a shell block as words: comments gone, lines joined, variables of the block put in."""
    variables: dict[str, str] = {}
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        for one in line.split(" && "):
            for name, value in variables.items():
                one = one.replace(f"${name}", value)
            words = shlex.split(one, comments=True)
            while words and ASSIGNED.match(words[0]):
                name, _, value = words.pop(0).partition("=")
                variables[name] = value
            found += [words] if words else []
    return found


def check_command(words: list[str]) -> None:
    """Raises if a program, a file, a target, an extra, an option or a name does not exist."""
    program, *rest = words
    if program in ("torchrun", "srun"):
        check_raretag(rest[rest.index("raretag") + 1 :])
    elif program == "raretag":
        check_raretag(rest)
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), words
    elif program == "pip":
        check_extras(rest)
    elif program in ("python", "pytest"):
        check_script(rest)
    elif program == "curl":
        assert "/predict" in " ".join(rest)
    else:
        raise AssertionError(f"'{program}' is not a program that is checked; say `<!-- not run: reason -->` above it")


def check_extras(words: list[str]) -> None:
    assert words[0] == "install"
    for word in words:
        for extra in re.findall(r"^raretag\[(.*)\]", word):
            assert set(extra.split(",")) <= EXTRAS, word


def check_script(words: list[str]) -> None:
    """The file is there, and its text names every option."""
    paths = [REPOSITORY / word for word in words if word.endswith(".py")]
    assert paths, words
    for path in paths:
        assert path.is_file(), path
    for option in (word.partition("=")[0] for word in words if word.startswith("--")):
        assert option in paths[0].read_text(encoding="utf-8"), f"{words}: {option}"


def check_raretag(words: list[str], *, whole: bool = True) -> None:
    """Parsed as the program parses it, without doing it; `whole=False` forgives arguments that are left out."""
    if words and words[0] == "labels" and len(words) > 1:
        group = get_command(app).get_command(None, "labels")
        name, rest = words[1], words[2:]
    else:
        group, name, rest = get_command(app), words[0], words[1:]
    command = group.get_command(None, name)
    assert command is not None, f"there is no command '{name}'"
    if not whole and not rest:
        return
    given = command.make_context(name, list(rest), resilient_parsing=not whole).params
    if name == "bench":
        check_plan(given)
    elif name == "figure":
        find_figure(given["name"])
    elif name in ("train", "inspect", "suggest", "sweep", "apply"):
        check_settings(given)


def check_plan(given: dict) -> None:
    """The plan is there, and so is what `--only` names of it."""
    if given["plan"] == extreme.NAME:
        return
    found = loaded(given["plan"])
    known = {row.label for row in (*found.data, *found.settings, *found.methods)}
    known |= {f"seed {seed}" for seed in found.seeds}
    assert set(given["only"] or []) <= known, f"{given['plan']}: {set(given['only']) - known}"


loaded = lru_cache(plan.load)


def check_settings(given: dict) -> None:
    """Sections, keys and the names in them exist, and so do the options of a method."""
    data = given.get("data") if given.get("run") is None or "config" in given else None
    settings = compose(None, list(given.get("set_") or []), None if data is None else str(data))
    method = given.get("method") or settings.method.name
    if method != "auto" and ":" not in method:
        registry.refuse_unknown("methods", method)
        options = registry.parameters(registry.find("methods", method))
        unknown = set(settings.method.options) - set(options)
        assert not unknown, f"{method} has no options {unknown}"
    for room, chosen in (("models", settings.encoder), ("sampling", settings.sampler), ("models", settings.branches)):
        if chosen.name not in ("auto", "none", "head_tail"):
            registry.refuse_unknown(room, chosen.name)


def check_search(tree: dict) -> None:
    """The settings that a sweep looks through exist."""
    for path in tree["search"]:
        changed: dict = {}
        put(changed, path, 1)
        checked(changed)
