"""Every block of code in the README and in the pages of the site runs, or is checked as far as that goes.

Python runs, block after block of a page, in a folder with small made data. Commands are parsed as the program parses
them, with their settings and names; those of CHEAP run. YAML and TOML are read. A block in another language, or one
that says `<!-- not run: reason -->` above it, is left out; there is no third way, so a new page cannot bring unchecked
code.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from pyarrow import csv, parquet

import raretag
from raretag.cli.main import app
from raretag.core.listener import Listener
from support.pages import PAGES, Block, blocks, check_command, check_raretag, check_search, commands
from support.paths import REPOSITORY

BLOCKS = [block for page in PAGES for block in blocks(page)]
KINDS = ("python", "sh", "yaml", "toml", "text")
INLINE = re.compile(r"`raretag ([a-z][^`]*)`")
PLACEHOLDER = re.compile(r"\b(?:NAME|PLAN)\b")
ELSEWHERE = {  # pages whose Python is run, and looked at more closely, by a test of their own
    "CONTRIBUTING.md": "test_contributing.py",
    "docs/large-labels.md": "test_large_labels.py",
}
CHEAP = {  # page: the commands of it that run, by how they begin, after what the fixture `made` left in the folder
    "README.md": ("inspect", "train", "report", "predict"),
    "docs/using-a-model.md": (
        "predict runs/photos new.csv",
        "predict runs/photos pictures",
        "tune runs",
        "export runs/p",
    ),
    "docs/prior.md": ("train", "predict"),
    "docs/large-labels.md": ("train --data small.svm",),
}
BEFORE = {  # page: what its Python takes for granted
    "docs/integrations.md": """
import json
from pathlib import Path
import numpy as np, raretag
X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, :2] > 0.3).astype(float)
Y[::7, 0] = np.nan
model, paths = raretag.load("runs/photos"), ["pictures/0.png", "pictures/1.png"]
answered = [{"image": path, "item": path, "labels": "sea"} for path in paths]
Path("export.json").write_text(json.dumps(answered))
""",
    "docs/using-a-model.md": """
import shutil
import numpy as np
shutil.copy("runs/photos/model.onnx", ".")
shutil.copy("pictures/0.png", "a.jpg"), shutil.copy("pictures/1.png", "b.jpg")
batch = np.zeros((2, 3, 16, 16), np.float32)
""",
    "docs/your-data.md": """
import numpy as np, pandas, torch
X, Y = np.random.default_rng(0).normal(size=(40, 4)), np.tile([[1, 0], [0, 1]], (20, 1))
frame = pandas.DataFrame(np.hstack([X, Y]), columns=list("abcdef"))
numbers, labels = list("abcd"), list("ef")
texts = ["a cat", "a cat and a dog"] * 20
others, rows = range(10), range(10, 40)


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, row):
        return torch.full((3, 8, 8), float(row))


class Rows:  # stands for datasets.Dataset, which need not be installed
    column_names, features = ["text", "labels"], {"labels": None}

    def __getitem__(self, column):
        return {"text": texts, "labels": tags}[column]

    def __len__(self):
        return 40


tags = [["cat"], ["cat", "dog"]] * 20
images, dataset = Images(), Rows()
""",
    "docs/prior.md": """
import numpy as np, raretag
X = np.random.default_rng(0).normal(size=(60, 3))
seen = X[:, :2] + 1.5 * np.random.default_rng(2).normal(size=(60, 2))
Y = (seen > 0.3).astype(float)
Y[np.random.default_rng(1).random(Y.shape) < 0.3] = np.nan
scores = np.where(seen > 0.3, 0.9, 0.1)
X_new, new_scores = X[:5], scores[:5]
""",
    "docs/suggestions.md": """
from pathlib import Path
import raretag
raretag.train("my.csv", method="logistic_regression", out="first")
found = raretag.suggest("first", most=20)
found.to_csv("answered.csv")
file = Path("answered.csv")
lines = file.read_text().splitlines()
place = lines[0].split(",").index("answer")
rows = [line.split(",") for line in lines[1:]]
file.write_text("\\n".join([lines[0], *(",".join([*row[:place], "yes", *row[place + 1 :]]) for row in rows)]))
""",
    "docs/performance/fused.md": """
import torch, raretag
logits, context = torch.randn(4, 3), raretag.Context()
targets = raretag.Targets.from_dense(torch.ones(4, 3))
method = raretag.methods.Focal()
""",
    "docs/performance/metrics.md": """
import torch, raretag
logits, a1, a2, a3, b1, b2, b3, c1 = torch.randn(8, 20, 3)
targets = raretag.Targets.from_dense((torch.arange(60).view(20, 3) % 4 == 0).float())
groups = {"head": torch.tensor([0, 1]), "tail": torch.tensor([2])}
""",
    "docs/performance/large-labels.md": """
import torch, raretag
store = raretag.LabelStore.from_dense((torch.rand(20, 50) < 0.1).float())
backbone, images, rows, epoch, epochs = torch.nn.Linear(8, 256), torch.randn(4, 8), torch.arange(4), 0, 3
""",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with tables, pictures and small runs under the names that the pages use."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RARETAG_CACHE", str(folder / "cache"))
        draw = np.random.default_rng(0)
        X = draw.normal(size=(60, 3))
        seen = X + 1.5 * np.random.default_rng(1).normal(size=X.shape)  # by outside scores; features know a part
        tags = [";".join(tag for tag, x in zip(("sea", "boat"), row, strict=False) if x > 0.3) for row in seen]
        rows = [",".join(f"{x:.3f}" for x in row) for row in X]
        table = ["id,a,b,c,tags", *(f"{n},{row},{tag}" for n, (row, tag) in enumerate(zip(rows, tags, strict=True)))]
        Path("my.csv").write_text("\n".join(table))
        Path("pictures").mkdir()
        for n, row in enumerate(X):
            colour = tuple(int(128 + 40 * x) % 256 for x in row)
            Image.new("RGB", (16, 16), colour).save(f"pictures/{n}.png")
        pictures = [f"pictures/{n}.png,{tag}" for n, tag in enumerate(tags)]
        Path("photos.csv").write_text("\n".join(["file,tags", *pictures]))
        Path("small.svm").write_text("\n".join(f"{n % 5},{n % 3} {n % 5 + 1}:1 {n % 3 + 6}:0.5" for n in range(40)))
        scores = [
            f"{n},{tag},{0.5 + 0.1 * x:.3f}"
            for n, row in enumerate(seen)
            for tag, x in zip(("sea", "boat"), row, strict=False)
        ]
        Path("new-scores.csv").write_text("\n".join(["item,label,score", *scores]))
        parquet.write_table(csv.read_csv("new-scores.csv"), "scores.parquet")
        small = {"encoder__name": "none", "data__size": 16, "listener": Listener()}
        raretag.train("photos.csv", out="runs/photos", method="assume_negative", epochs=1, **small)
    return folder


def of(*kinds: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind in kinds and not block.exempt]


def test_every_block_is_of_a_kind_that_is_checked():
    for block in BLOCKS:
        assert block.kind in KINDS or block.exempt, f"{block.page}: a block of '{block.kind}'\n{block.text}"


@pytest.mark.parametrize("page", sorted({block.page for block in of("sh")}))
def test_commands_exist_with_their_options_and_names(page):
    for block in of("sh"):
        for words in commands(block) if block.page == page else ():
            check_command(words)


def test_commands_within_sentences_exist():
    for page in PAGES:
        for line in INLINE.findall(page.read_text(encoding="utf-8")):
            if not PLACEHOLDER.search(line):
                check_raretag(shlex.split(line), whole=False)


@pytest.mark.parametrize("page", sorted(CHEAP))
def test_cheap_commands_run(page, made, monkeypatch, capsys):
    pytest.importorskip("plotly")
    pytest.importorskip("onnx")
    monkeypatch.chdir(made)
    if page == "docs/using-a-model.md":
        lines = (made / "photos.csv").read_text().splitlines()
        (made / "new.csv").write_text("\n".join(line.split(",")[0] for line in lines[:6]))
    else:
        (made / "new.csv").write_text((made / "my.csv").read_text())
    done = 0
    for block in of("sh"):
        for words in commands(block) if block.page == page else ():
            line = " ".join(words[1:])
            if words[0] == "raretag" and line.startswith(CHEAP[page]):
                app(words[1:], standalone_mode=False)
                done += 1
    assert done >= len(CHEAP[page])


@pytest.mark.parametrize("page", sorted({block.page for block in of("python")} - set(ELSEWHERE)))
def test_python_runs(page, made, monkeypatch):
    monkeypatch.chdir(made)
    scope: dict = {"__name__": "page"}
    if (before := BEFORE.get(page)) and "model.onnx" in before and not (made / "runs/photos/model.onnx").exists():
        pytest.importorskip("onnx")
        app(["export", "runs/photos", "--to", "onnx", "--decide"], standalone_mode=False)
    exec(before or "", scope)
    for block in of("python"):
        if block.page == page:
            exec(compile(block.text, page, "exec", dont_inherit=True), scope)


def test_python_that_is_not_run_is_python():
    for block in BLOCKS:
        if block.kind == "python" and block.exempt:
            compile(block.text, block.page, "exec", dont_inherit=True)
            assert len(block.exempt) > 20, "say why"


def test_pages_that_are_run_elsewhere_are():
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (Path(__file__).parent / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("block", of("yaml"), ids=lambda block: block.page)
def test_yaml_is_read(block):
    tree = yaml.safe_load(block.text)
    if "search" in tree:
        check_search(tree)
    if "entrypoint" in block.text:
        check_command(shlex.split(tree["spec"]["entrypoint"]))


def test_a_new_page_with_unchecked_code_is_noticed(tmp_path, monkeypatch):
    """The rule itself: an unknown command, option, setting, plan, extra or file fails."""
    for line in (
        "raretag trian --data my.csv",
        "raretag train --dta my.csv",
        "raretag train --set train.epoch=3",
        "raretag train --method foccal",
        "raretag train --method focal --set method.gama=1",
        "raretag bench nothing",
        "raretag bench quick --only Nobody",
        "pip install 'raretag[nothing]'",
        "python benchmarks/nothing.py",
        "make nothing",
        "rm -rf everything",
    ):
        with pytest.raises((Exception, SystemExit)):
            check_command(shlex.split(line))
    page = REPOSITORY / "docs" / "made-up.md"
    monkeypatch.setattr(
        Path, "read_text", lambda self, **_: "# A\n\n    rm x\n\n```ruby\n1\n```\n" if self == page else ""
    )
    assert [(block.kind, block.text) for block in blocks(page)] == [("sh", "rm x\n\n"), ("ruby", "1\n")]
    assert "ruby" not in KINDS
