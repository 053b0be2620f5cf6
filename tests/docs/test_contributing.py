"""The method that CONTRIBUTING.md shows, in a package of its own: used by path, by name, as an object and as a base."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import raretag
from raretag.core import registry
from raretag.core.method import as_method

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
CODE = re.search(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)[1]
TABLE = re.search(r"```toml\n(.*?)```", TEXT, flags=re.DOTALL)[1]
LABELS = raretag.LabelStore.from_dense(np.array([[1, 0], [0, 1], [1, np.nan], [0, 0]]))
LOGITS = torch.tensor([[0.5, -1.0], [0.0, 2.0]])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installed as pip would: a package, and beside it the entry points of its distribution."""
    (tmp_path / "my_pkg").mkdir()
    (tmp_path / "my_pkg" / "__init__.py").write_text("")
    (tmp_path / "my_pkg" / "losses.py").write_text(CODE)
    installed = tmp_path / "my_pkg-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-pkg\nVersion: 1.0\n")
    group, *points = TABLE.strip().splitlines()
    name = re.fullmatch(r'\[project\.entry-points\."(.*)"\]', group)[1]
    (installed / "entry_points.txt").write_text(
        "\n".join([f"[{name}]", *(one.replace('"', "") for one in points)]) + "\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    registry._from_packages.cache_clear()
    yield
    registry._from_packages.cache_clear()
    for module in ("my_pkg", "my_pkg.losses"):
        sys.modules.pop(module, None)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", ["my_loss", "my_pkg.losses:MyLoss"])
def test_a_method_of_another_package_is_used_by_its_name(name):
    assert registry.is_known("methods", name)
    kind = registry.find("methods", name)
    assert issubclass(kind, raretag.Method)
    method = as_method(name, LABELS.statistics(), len(LABELS), 0, {"gamma": 2.0})
    assert method(LOGITS, LABELS.targets([0, 1])) == raretag.methods.Focal(gamma=2.0)(LOGITS, LABELS.targets([0, 1]))
    with pytest.raises(raretag.UserError, match="has no option 'gama'; did you mean 'gamma'"):
        raretag.bind(name, LABELS, gama=2.0)


@pytest.mark.usefixtures("package")
def test_it_is_listed():
    entry = next(one for one in registry.entries("methods") if one.name == "my_loss")
    assert entry.summary == "One line that `raretag list methods` shows."
    assert entry.source.startswith("Your paper")


@pytest.mark.usefixtures("package")
def test_it_stands_below_other_methods_in_every_form():
    kind = registry.find("methods", "my_loss")
    wanted = raretag.bind("partial_label_masking", LABELS, epochs=2, base={"name": "focal", "gamma": 1.0})
    for base in ("my_loss", "my_pkg.losses:MyLoss", {"name": "my_loss", "gamma": 1.0}, kind, kind(gamma=1.0)):
        bound = raretag.bind("partial_label_masking", LABELS, epochs=2, base=base)
        assert bound(LOGITS, [0, 2]) == wanted(LOGITS, [0, 2])


@pytest.mark.usefixtures("package")
def test_a_package_cannot_replace_what_is_ours_and_must_bring_a_method(tmp_path):
    (tmp_path / "my_pkg-1.0.dist-info" / "entry_points.txt").write_text(
        "[raretag.methods]\nfocal = my_pkg.losses:MyLoss\n"
    )
    registry._from_packages.cache_clear()
    assert registry.find("methods", "focal") is raretag.methods.Focal
    with pytest.raises(raretag.UserError, match="is not a Method"):
        raretag.bind("my_pkg.losses:completion", LABELS)
    with pytest.raises(raretag.UserError, match="has no 'Nothing'"):
        raretag.bind("my_pkg.losses:Nothing", LABELS)
