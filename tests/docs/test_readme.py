"""What the documents show is run."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from raretag.config.settings import compose
from raretag.core import registry

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/own-loop.md"])
def test_the_python_of_a_page_runs(page, tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL))
    assert "raretag.bind" in code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


commands = re.findall(r"^    raretag train (.+?)(?:\s+#.*)?$", README, flags=re.MULTILINE)


@pytest.mark.parametrize("command", [command for command in commands if "--config" not in command])
def test_the_settings_of_the_readme_exist(command):
    words = command.split()
    changes = [word for before, word in pairwise(words) if before == "--set"]
    config = compose(None, changes)
    method = words[words.index("--method") + 1] if "--method" in words else config.method.name
    assert method in ("auto", *registry.names("methods"))


def test_links_of_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_generated_pages_are_as_the_code_is():
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
