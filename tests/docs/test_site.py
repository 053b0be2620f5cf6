"""The pages of the documentation site: made without an error, linked to each other, with a formula for each method."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from raretag.cli.listing import WON
from raretag.core import registry

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    pytest.importorskip("latex2mathml")
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        import build_site

        patch.setattr(build_site, "PAGES", folder)
        build_site.build()
        for name in ("build_site", "generate", "method_facts"):
            sys.modules.pop(name)
    return folder


def test_links_lead_to_pages(pages):
    for page in pages.rglob("*.md"):
        for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
            assert (page.parent / target).exists(), f"{page.relative_to(pages)}: {target}"


def test_every_page_of_the_navigation_exists(pages):
    def files(entry):
        if isinstance(entry, str):
            return [entry]
        return [one for inner in (entry.values() if isinstance(entry, dict) else entry) for one in files(inner)]

    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in files(yaml.safe_load(text)["nav"]):
        assert (pages / name).is_file(), name


@pytest.mark.parametrize("room", ["methods", "solvers", "ranking"])
def test_every_method_says_when_to_use_it_what_it_costs_and_where_it_won(room, pages):
    for name in registry.names(room):
        text = (pages / "methods" / f"{name}.md").read_text(encoding="utf-8")
        for title in ("When to use it", "What it costs", "Where it won and lost"):
            assert re.search(rf"^## {title}\n\n\S", text, re.MULTILINE), f"{name}: {title}"
        rows = re.findall(r"^\| \[([\w-]+)\]\(.*?\) \| \d+ \| (\d+) \|", text, re.MULTILINE)
        ran, won = ({page.replace("-", "_") for page, best in rows if int(best) >= least} for least in (0, 1))
        wins = set(WON.get(name, ())) & ran  # some benchmarks compare a method with itself alone
        assert wins <= won, f"{name}: the page and `raretag list methods` disagree"


@pytest.mark.parametrize("room", ["methods", "solvers", "ranking"])
def test_every_method_has_a_page_with_a_formula(room, pages):
    for name in registry.names(room):
        text = (pages / "methods" / f"{name}.md").read_text(encoding="utf-8")
        assert "<math" in text, f"{name} has no formula in docs/formulas.yaml"
        assert "\\" not in re.findall(r"<math.*?</math>", text, re.DOTALL)[0], f"{name}: a command that MathML lacks"
