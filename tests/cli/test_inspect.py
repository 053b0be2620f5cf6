"""`raretag inspect` tells what is in the labels."""

import json
import subprocess
import sys

import numpy as np
import pytest

from raretag.figures.class_aware import distribution
from raretag.figures.parts.canvas import save
from raretag.labels.counts import describe
from raretag.labels.store import LabelStore


def raretag(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "raretag", *arguments], capture_output=True, text=True, cwd=cwd, timeout=120
    )


def test_a_small_store_is_described_in_full():
    nan = float("nan")
    store = LabelStore.from_dense(
        np.array([[1, 1, 0, 0], [1, 0, 0, nan], [0, 0, 1, 0], [0, 0, 0, 0]]), names=["a", "b", "c", "d"]
    )
    found = describe(store, edges=(2, 3))
    assert found["items"] == 4
    assert found["labels_per_item"] == 1.0
    assert found["items_without_positive"] == 1
    assert found["observed"] == {"positive": 4 / 16, "negative": 11 / 16, "unknown": 1 / 16}
    assert found["most_to_least_frequent"] == 2
    assert found["groups"] == {"edges": [2, 3], "head": 0, "medium": 1, "tail": 3}
    assert found["never_positive"] == ["d"]
    assert found["always_alone"] == ["c"]
    assert found["distribution"]["labels"] == ["a", "b", "c", "d"]
    # p_hat = 1/3 (n_ia / 2 + n_ib / 1 + n_ic / 1), by hand
    assert found["distribution"]["after_class_aware"] == pytest.approx([2 / 3, 1 / 2, 1 / 3, 0])


@pytest.mark.parametrize("labels", [3, 60])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_distribution_is_drawn(labels, ending, tmp_path):
    generator = np.random.default_rng(0)
    store = LabelStore.from_dense(generator.random((50, labels)) < 0.2)
    path = tmp_path / f"picture.{ending}"
    save(distribution(describe(store), "a title"), path)
    assert path.stat().st_size > 5000


def test_the_command_prints_draws_and_writes(tmp_path):
    done = raretag("inspect", "digits", "--picture", "p.svg", "--numbers", "n.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("items", "observed", "most : least", "groups", "duplicates", "zero", "nine"):
        assert word in done.stdout
    assert (tmp_path / "p.svg").exists()
    assert json.loads((tmp_path / "n.json").read_text())["labels"] == 10


def test_a_table_of_ones_own_is_inspected_and_trained(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 3))
    rows = ["a,b,c,tags"]
    for a, b, c in x:
        tags = [tag for tag, on in zip("xyz", (a > 0, b > 0, c > 1), strict=True) if on]
        rows.append(f"{a:.4f},{b:.4f},{c:.4f},{';'.join(tags)}")
    (tmp_path / "my.csv").write_text("\n".join(rows) + "\n")
    done = raretag("inspect", "my.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tags" in done.stdout
    done = raretag("train", "--data", "my.csv", "--set", "train.epochs=30", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tags" in done.stderr
    record = json.loads((tmp_path / "runs/my-auto-0/record.json").read_text())
    assert record["metrics"]["final"]["mAP"]["total"] > 0.8


def test_mistakes_are_one_line(tmp_path):
    for arguments in (["no.csv"], ["digitz"], ["digits", "--picture", "p.gif"]):
        done = raretag("inspect", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("raretag: ")
        assert "Traceback" not in done.stderr


def test_items_are_counted_as_training_deals_them(tmp_path):
    """All of them teach unless a share is set apart; an item is not counted as two parts."""
    rows = "".join(f"{row},{row % 7},{'a;b' if row % 2 else 'a'}\n" for row in range(100))
    (tmp_path / "my.csv").write_text("x,z,tags\n" + rows)
    whole = raretag("inspect", "my.csv", "--numbers", "n.json", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert json.loads((tmp_path / "n.json").read_text())["splits"] == {"train": 100, "test": 0}
    items = next(line for line in whole.stdout.splitlines() if line.startswith("items"))
    assert items.split() == ["items", "train", "100"]
    done = raretag("inspect", "my.csv", "--set", "data.test=0.2", "--numbers", "n.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "n.json").read_text())["splits"] == {"train": 80, "test": 20}
