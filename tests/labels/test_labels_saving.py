"""A saved label store comes back, a failed save loses nothing, and damaged files are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.labels.store import LabelStore
from support.label_tables import NAN, equal, tables


@settings(deadline=None, max_examples=30)
@given(tables(), st.booleans())
def test_a_saved_store_comes_back_memory_mapped(
    tmp_path_factory: pytest.TempPathFactory, table: NDArray[np.float32], named: bool
) -> None:
    names = [f"é{c}" for c in range(table.shape[1])] if named else None
    ids = [f"日{i}" * i for i in range(len(table))] if named else None
    store = LabelStore.from_dense(table, names, ids)
    folder = tmp_path_factory.mktemp("store") / "labels"
    store.save(folder)
    loaded = LabelStore.load(folder)
    assert loaded == store
    assert loaded.fingerprint() == store.fingerprint()
    assert isinstance(loaded.entries.positives.indices.base, np.memmap)
    assert equal(loaded.targets(slice(0, 2)).observed.numpy(), ~np.isnan(table[:2]))
    assert loaded.take(slice(1, 3)) == store.take(slice(1, 3))
    assert [path.name for path in folder.parent.iterdir()] == ["labels"]  # nothing temporary is left


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    table = np.random.default_rng(0).choice([1, 0, NAN], (50, 30))
    LabelStore.from_dense(table, ids=[f"i{i}" for i in range(50)]).save(tmp_path / "labels")
    return tmp_path / "labels"


def test_saving_replaces_a_store_that_is_in_use(saved: Path) -> None:
    old = LabelStore.load(saved)
    before = old.dense()
    LabelStore.from_lists([[0]]).save(saved)
    assert LabelStore.load(saved).lists() == [[0]]
    assert equal(old.dense(), before)


def test_a_save_that_fails_leaves_the_old_store(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = LabelStore.load(saved).fingerprint()

    def broken(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(json, "dump", broken)
    with pytest.raises(OSError, match="disk full"):
        LabelStore.from_lists([[0]]).save(saved)
    assert LabelStore.load(saved).fingerprint() == before
    assert [path.name for path in saved.parent.iterdir()] == ["labels"]


def test_a_rename_that_fails_puts_the_old_store_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, rename = LabelStore.load(saved).fingerprint(), Path.rename

    def broken(path: Path, target: Path) -> Path:
        if path.suffix == ".new":
            raise OSError("no rename")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(OSError, match="no rename"):
        LabelStore.from_lists([[0]]).save(saved)
    assert LabelStore.load(saved).fingerprint() == before
    assert [path.name for path in saved.parent.iterdir()] == ["labels"]


def test_a_folder_that_is_no_store_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not lose me")
    with pytest.raises(UserError, match="not a label store"):
        LabelStore.from_lists([[0]]).save(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


FILES = ["labels.json", "positives.indptr.npy", "positives.indices.npy", "bits.npy", "ids.ends.npy", "ids.utf8.npy"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    assert sorted(FILES) == sorted(path.name for path in saved.iterdir())
    (saved / name).unlink()
    with pytest.raises(UserError, match=name):
        LabelStore.load(saved)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 10, -1])
def test_a_truncated_file_is_named(saved: Path, name: str, left: int) -> None:
    whole = (saved / name).read_bytes()
    (saved / name).write_bytes(whole[:left])
    with pytest.raises(UserError, match=name):
        LabelStore.load(saved)


def test_files_of_another_store_are_refused(saved: Path, tmp_path: Path) -> None:
    LabelStore.from_lists([[0, 1]] * 50).save(tmp_path / "other")
    (saved / "positives.indices.npy").write_bytes((tmp_path / "other" / "positives.indices.npy").read_bytes())
    with pytest.raises(UserError, match="two stores mixed"):
        LabelStore.load(saved)


def test_pickled_objects_are_not_read(saved: Path) -> None:
    np.save(saved / "bits.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(UserError, match=r"bits\.npy"):
        LabelStore.load(saved)
