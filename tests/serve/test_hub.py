"""A model on its way to the Hub and back; a folder stands for the Hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import raretag
from raretag.core.listener import Listener
from raretag.serve.hub import push


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    folder = tmp_path_factory.mktemp("hub") / "run"
    data = raretag.data.from_arrays(X, X[:, :2] > 0.3, label_names=["sea", "boat"], name="mine")
    raretag.train(data, method="logistic_regression", out=folder, listener=Listener())
    return folder, X


def test_a_folder_has_the_model_and_a_page(run, tmp_path):
    folder, X = run
    there = push(folder, str(tmp_path / "shared" / "model"))
    page = (Path(there) / "README.md").read_text()
    record = raretag.load(there).card
    assert page.startswith("---\nlibrary_name: raretag\n")
    assert "`logistic_regression`" in page
    assert "`sea`, `boat`" in page
    assert len(record.labels) == 2
    first, second = (raretag.load(one).predict(X).probabilities for one in (folder, there))
    assert np.array_equal(first, second)


def test_the_numbers_of_the_page_are_those_of_the_record(run, tmp_path):
    from raretag.runs.record import read_record

    folder, _ = run
    page = (Path(push(folder, str(tmp_path / "model"))) / "README.md").read_text()
    assert f"| all labels | {100 * read_record(folder).metrics.final.mAP.total:.1f} |" in page


def test_mistakes_are_one_sentence(tmp_path):
    with pytest.raises(raretag.UserError, match="expected hf://OWNER/NAME"):
        raretag.load("hf://only-a-name")
    with pytest.raises(raretag.UserError):
        push(tmp_path, "hf://me/model")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_the_hub_gets_and_gives_the_same(run, tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    folder, X = run
    store, calls = tmp_path / "hub", []

    class Api:
        def create_repo(self, repo_id, *, private, exist_ok):
            calls.append((repo_id, private, exist_ok))

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, store / repo_id)

    def snapshot_download(repo_id, *, revision, allow_patterns):
        assert (revision, allow_patterns) == (None, ["card.json", "model.safetensors"])
        return str(store / repo_id)

    monkeypatch.setattr(hub, "HfApi", Api)
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    assert push(folder, "hf://me/model") == "https://huggingface.co/me/model"
    assert calls == [("me/model", True, True)]
    assert 'raretag.load("hf://me/model")' in (store / "me/model/README.md").read_text()
    first, second = (raretag.load(one).predict(X).probabilities for one in (folder, "hf://me/model"))
    assert np.array_equal(first, second)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_the_calls_are_those_of_the_package(monkeypatch):
    """The stand-ins above take what the real functions take."""
    import inspect

    hub = pytest.importorskip("huggingface_hub")
    inspect.signature(hub.HfApi.create_repo).bind(None, "me/model", private=True, exist_ok=True)
    inspect.signature(hub.HfApi.upload_folder).bind(None, repo_id="me/model", folder_path=".", commit_message="x")
    inspect.signature(hub.snapshot_download).bind("me/model", revision=None, allow_patterns=["card.json"])
