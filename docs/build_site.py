"""Writes the pages of the site into build/pages: `python docs/build_site.py`, then `zensical build`.

The guides are the Markdown files of this folder. Generated beside them: a page per method from its docstring, the API
reference of everything public (mkdocstrings fills it), and the pages that stand at the top of the repository.
"""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from types import ModuleType

import yaml
from generate import HEAD as ABOUT_METHODS
from generate import options_table
from method_facts import sections

import raretag
from raretag.core import registry
from raretag.methods import FILLS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "pages"
TOP = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
ROOMS = ("methods", "solvers", "ranking")
NOT_PAGES = ("methods.md", "public-api.md")  # a page per method and the API reference take their place


def build() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    leave_out = shutil.ignore_patterns("*.py", "*.yaml", "records", "__pycache__", *NOT_PAGES)
    shutil.copytree(ROOT / "docs", PAGES, ignore=leave_out)
    shutil.copytree(ROOT / "examples", PAGES / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name in TOP:
        shutil.copy(ROOT / name, PAGES / name)
    write("index.md", (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "]("))
    for page in PAGES.rglob("*.md"):
        page.write_text(with_whole_numbers(with_links_of_the_site(page)), encoding="utf-8")
    methods()
    reference()
    listing(
        "benchmarks", "Benchmarks", "Every page has the command, the data, the seeds and the budget of its numbers."
    )
    listing("adr", "Decisions", "Why things are as they are, a page per decision.")


def listing(folder: str, title: str, about: str) -> None:
    """An index page of a folder: the titles of its pages."""
    titles = {
        page.name: page.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
        for page in PAGES.glob(f"{folder}/*.md")
    }
    rows = [f"- [{titles[name]}]({name})" for name in sorted(titles)]
    write(f"{folder}/index.md", "\n".join([f"# {title}", "", about, "", *rows, ""]))


def write(name: str, text: str) -> None:
    (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
    (PAGES / name).write_text(text, encoding="utf-8")


def with_whole_numbers(text: str) -> str:
    """Cells of a table may wrap (extra.css), but a number stays on one line with its deviation and interval."""
    number = re.compile(r"(?<=\| )[*<u>]*[+-]?\.?\d[^|`A-Za-tv-z]{0,28}?(?= \|)")
    return "\n".join(
        number.sub(lambda cell: cell[0].replace(" ", "\N{NO-BREAK SPACE}"), line) if line.startswith("|") else line
        for line in text.split("\n")
    )


def with_links_of_the_site(page: Path) -> str:
    """In the repository the guides are in docs/ and link upwards; on the site everything hangs below one root."""
    up = "../" * (len(page.relative_to(PAGES).parts) - 1)
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"\]\((?:\.\./)+((?:examples/|[A-Z]+\.md)[^)]*)\)", rf"]({up}\1)", text)
    text = re.sub(r"\]\(docs/([^)]*)\)", rf"]({up}\1)", text)
    text = re.sub(r"\]\((?:\.\./)?methods\.md#([a-z_0-9]+)\)", rf"]({up}methods/\1.md)", text)
    text = re.sub(r"\]\((?:\.\./)?methods\.md\)", rf"]({up}methods/index.md)", text)
    text = re.sub(r"\]\((?:\.\./)?public-api\.md\)", rf"]({up}api/index.md)", text)
    text = re.sub(r"\[([^\]\n]*)\]\([^):]*records/[^)]*\)", r"`\1`", text)  # the runs themselves stay in the repository
    return re.sub(r"\]\((examples)/?\)", rf"]({up}examples/own_loop.py)", text)


# Methods


def methods() -> None:
    """methods/index.md with a table, methods/NAME.md for each: formula, docstring, options."""
    formulas = yaml.safe_load((ROOT / "docs" / "formulas.yaml").read_text(encoding="utf-8"))
    parts = [ABOUT_METHODS.split("\n\n", 2)[2].split("[Solvers]")[0]]
    for room in ROOMS:
        parts += [
            f"## {room.capitalize()}",
            "| name | what it is | fills |\n|---|---|---|\n"
            + "\n".join(
                f"| [{entry.name}]({entry.name}.md) | {entry.summary} | {' '.join(FILLS.get(entry.name, ()))} |"
                for entry in registry.entries(room)
            ),
        ]
        for entry in registry.entries(room):
            write(f"methods/{entry.name}.md", method_page(room, entry, formulas.get(entry.name, [])))
    write("methods/index.md", "# Methods\n\n" + "\n\n".join(parts) + "\n")


def method_page(room: str, entry: registry.Entry, formulas: list[str]) -> str:
    from latex2mathml.converter import convert

    title, _, rest = entry.docstring.partition("\n\n")
    parts = [f"# {entry.name}", title.replace("\n", " ")]
    parts += [f'<div class="formula">{convert(formula, display="block")}</div>' for formula in formulas]
    parts += [f"    raretag train --data my.csv --method {entry.name}", *sections(room, entry.name)]
    parts += ["## Details", *in_markdown(rest)] if rest else []
    parts += [
        "## Options",
        "Set with `--set method.OPTION=VALUE`, or as keyword arguments.",
        options_table(room, entry),
    ]
    return "\n\n".join(parts) + "\n"


def in_markdown(docstring: str) -> list[str]:
    """Paragraphs stay, `Title:` above an indented text becomes a heading, and aligned lines stay as they are."""
    parts = []
    for block in re.split(r"\n\n(?=\S)", docstring):
        title, _, rest = block.partition("\n")
        if not rest.startswith(("    ", "\n    ")):
            parts.append(block)
            continue
        text = inspect.cleandoc(rest)
        aligned = "::" in title or re.search(r"\S {2,}\S", text)
        head = [f"## {title.rstrip(':')}"] if re.fullmatch(r"[A-Z][\w' ,-]*::?", title) else [title]
        parts += [*head, f"```text\n{text}\n```" if aligned else text]
    return parts


# API reference


def reference() -> None:
    """api/index.md for the front door and a page for each public room; mkdocstrings fills in the docstrings."""
    names = sorted(dir(raretag), key=lambda name: inspect.isclass(getattr(raretag, name)))  # functions first
    rooms = {name: getattr(raretag, name) for name in names if isinstance(getattr(raretag, name), ModuleType)}
    links = "\n".join(f"- [raretag.{name}]({name}.md)" for name in rooms)
    front = [section("raretag", raretag, name) for name in names if name not in rooms and not name.startswith("__")]
    write("api/index.md", "\n\n".join(["# raretag", links, *front]) + "\n")
    for name, room in rooms.items():
        offered = [one for one in room.__dir__() if not one.startswith("_")] if "__dir__" in vars(room) else []
        about = inspect.cleandoc(room.__doc__ or "")
        sections = [section(f"raretag.{name}", room, one) for one in offered]
        write(f"api/{name}.md", "\n\n".join([f"# raretag.{name}", about, *sections]) + "\n")


def section(prefix: str, room: ModuleType, name: str) -> str:
    thing = getattr(room, name)
    where = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
    if not where.startswith("raretag."):
        return f"## {prefix}.{name}\n\n`{thing}`"
    return f"::: {where}\n    options:\n      heading: {prefix}.{name}\n      toc_label: {name}"


if __name__ == "__main__":
    build()
