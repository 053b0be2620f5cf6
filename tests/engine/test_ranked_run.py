"""A run with very many labels: chosen by size, sparse from the file to the model, and used by every command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from scipy import sparse

import raretag
from raretag.config.settings import checked, compose, read
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.data.inputs.features import Features
from raretag.engine import ranked
from raretag.labels.store import LabelStore
from raretag.report.runs import write_report
from raretag.runs.ranked_card import read_labels, read_ranked_card
from raretag.serve.export_ranking import export_ranking, rank
from raretag.serve.model import load
from raretag.serve.predictions import PredictionsFile
from raretag.serve.ranking import RankingModel
from raretag.serve.readers import open_reader
from raretag.serve.retune import retune
from raretag.suggestions.job import suggest
from support.many_labels import words_and_labels, write_svm
from support.runs import run

X, POSITIVE = words_and_labels()
NEW, TRUE = words_and_labels(80, seed=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_svm(folder / "train.svm", X, POSITIVE)
    write_svm(folder / "test.txt", NEW, TRUE)
    return folder


@pytest.fixture(scope="module")
def trained(files):
    """A run folder with a test file."""
    config = compose(None, [f"data.test={files / 'test.txt'}"], str(files / "train.svm"), method__name="centroids")
    run(config, files / "run")
    return files / "run"


def test_the_size_chooses_a_ranker_and_says_so(files, monkeypatch):
    monkeypatch.setattr("raretag.core.ranker.MANY_LABELS", 40)
    said = []
    record = run(compose(None, [], str(files / "train.svm")), None, message=said.append)
    assert record["method"]["ranks"]
    assert any("too many labels to score all of them" in line for line in said)
    named = compose(None, [], str(files / "train.svm"), method__name="logistic_regression")
    assert run(named, None)["method"]["solves"]


def test_nothing_of_the_size_items_x_labels_or_columns_is_made(files, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("dense")

    monkeypatch.setattr(LabelStore, "targets", refuse)
    monkeypatch.setattr(LabelStore, "dense", refuse)
    whole = Features.batch
    monkeypatch.setattr(Features, "batch", lambda self, rows, _=None: whole(self, rows) if len(rows) < 2 else refuse())
    config = compose(None, [], str(files / "train.svm"), method__name="centroids", data__test=0.2)
    assert run(config, None)["metrics"]["final"]["top"]["P@1"] > 0.5


def test_the_record_says_what_the_folder_is_made_of(trained):
    record = json.loads((trained / "record.json").read_text())
    final = record["metrics"]["final"]
    assert final["top"]["P@1"] > 0.7
    assert final["top"]["items"] == 80
    assert set(final["top"]["recall@10"]) == {"total", "head", "medium", "tail"}
    assert record["fitted_on"]["model"]["items"] == 300
    assert record["fitted_on"]["thresholds"] == {"from": "held-out sample", "items": 30}
    assert record["data"]["label_count"] == 40
    assert "labels" not in record["data"]
    names = read_labels(trained, read_ranked_card(trained)).names
    assert list(names) == [str(label) for label in range(40)]


def test_numbers_without_a_test_part_are_of_held_out_items(files):
    said = []
    record = run(compose(None, [], str(files / "train.svm"), method__name="centroids"), None, message=said.append)
    assert record["metrics"]["final"]["measured_on"] == "held-out sample"
    assert record["metrics"]["final"]["top"]["items"] <= 30
    assert any("there is no test part" in line for line in said)


def test_validation_items_hold_out_when_they_shall_not_teach(files):
    config = compose(None, ["train.use_all=false"], str(files / "train.svm"), method__name="centroids", data__test=0.2)
    record = run(config, None)
    assert record["fitted_on"]["thresholds"]["from"] == "validation items"
    assert record["fitted_on"]["model"]["items"] == record["data"]["items"]["train"]


def test_very_large_sets_are_fitted_once(files, monkeypatch):
    monkeypatch.setattr(ranked, "TWICE", 10)
    record = run(compose(None, [], str(files / "train.svm"), method__name="centroids"), None)
    assert record["fitted_on"]["model"]["items"] == 270


def test_predictions_are_the_first_labels(trained, files):
    model = load(trained)
    assert isinstance(model, RankingModel)
    found = model.predict(NEW, top=3)
    hits = [TRUE[[row]].toarray()[0, int(best[0][0])] for row, best in enumerate(found.top(3))]
    assert np.mean(hits) > 0.7
    assert all(len(best) == 3 for best in found.top(3))
    assert (np.diff(found.probabilities, axis=1) <= 0).all()
    from_file = model.predict(files / "test.txt", top=3)
    assert from_file.top(3) == found.top(3)
    assert model.predict(top=3).top(3) == found.top(3)  # the test part of the run's own data
    assert found.table(2).column("top_labels").to_pylist()[0] == [name for name, _ in found.top(2)[0]]


def test_a_stopped_prediction_goes_on(trained, files, tmp_path):
    model = load(trained)

    def blocks(skip):
        return model.stream(open_reader(files / "test.txt", model.card), skip=skip, top=3)

    whole = [row for _, block in blocks(0) for row in block.top(3)]
    assert [row for _, block in blocks(50) for row in block.top(3)] == whole[50:]
    file = PredictionsFile(tmp_path / "p.jsonl", {}, overwrite=False)
    assert sum(file.fill(blocks(0), 3)) == 80
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 80


def test_tuning_moves_one_threshold(trained):
    precise = retune(trained, goal="precision", wanted=1.0)
    few = load(trained).predict(NEW).chosen.sum()
    loose = retune(trained, goal="recall", wanted=0.9)
    assert precise.decision.threshold > loose.decision.threshold
    assert 0 < few < load(trained).predict(NEW).chosen.sum()
    assert retune(trained, threshold=0.25).decision.threshold == 0.25
    retune(trained)


def test_an_edited_card_or_other_labels_are_refused(trained, tmp_path):
    for name in ("card.json", "labels.safetensors", "model.safetensors"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    assert isinstance(load(tmp_path), RankingModel)  # three files are all it takes
    card = json.loads((tmp_path / "card.json").read_text())
    (tmp_path / "card.json").write_text(json.dumps({**card, "labels": 39}))
    with pytest.raises(UserError, match="was changed after it was written"):
        load(tmp_path)
    (tmp_path / "card.json").write_bytes((trained / "card.json").read_bytes())
    (tmp_path / "labels.safetensors").unlink()
    with pytest.raises(UserError, match=r"has no labels\.safetensors"):
        load(tmp_path)


def test_a_stopped_run_does_not_rank_its_held_out_items_again(files, tmp_path, monkeypatch):
    config = compose(None, [], str(files / "train.svm"), method__name="centroids")
    whole = run(config, tmp_path / "whole")
    fits = []
    fit = ranked.RankedModel.fit

    def stopping(self, *rest):
        fits.append(len(rest[0]))
        if len(fits) == 2:
            raise KeyboardInterrupt
        fit(self, *rest)

    monkeypatch.setattr(ranked.RankedModel, "fit", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "stopped")
    fits.append(0)  # so that nothing stops it now
    assert run(config, tmp_path / "stopped", resume=True) == whole
    assert fits == [270, 300, 0, 300]
    assert not (tmp_path / "stopped" / ranked.STAGE).exists()


MORTAL = '''
import os
import raretag.ranking.ridge_centroids as it


class Mortal(it.RidgeCentroids):
    """Gets a signal in the middle of one of its fits."""

    def _chosen(self, *rest):
        Mortal.fits = getattr(Mortal, "fits", 0) + 1
        if os.environ.get("MORTAL") and Mortal.fits == int(os.environ["MORTAL"].split()[0]):
            os.kill(os.getpid(), int(os.environ["MORTAL"].split()[1]))
        return super()._chosen(*rest)
'''


def test_a_run_that_was_killed_ends_as_one_that_never_stopped(files, tmp_path, monkeypatch):
    (tmp_path / "mortal.py").write_text(MORTAL)
    monkeypatch.syspath_prepend(tmp_path)
    whole = run(compose(None, [], str(files / "train.svm"), method__name="mortal:Mortal"), tmp_path / "whole")
    command = [sys.executable, "-m", "raretag", "train", "--data", files / "train.svm", "--method", "mortal:Mortal"]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    for number, fit, code in ((signal.SIGKILL, 1, -9), (signal.SIGTERM, 2, 143)):
        folder = tmp_path / f"stopped in {fit}"
        settings = {**os.environ, "PYTHONPATH": path, "MORTAL": f"{fit} {int(number)}"}
        ended = subprocess.run([*command, "--out", folder], env=settings, capture_output=True, text=True)
        assert ended.returncode == code, ended.stderr
        assert (folder / ranked.STAGE).exists() == (fit == 2)  # before that, a run begins anew
        assert not (folder / "model.safetensors").exists()
        assert run(checked(read(folder / "config.yaml")), folder, resume=True) == whole
        for name in ("model.safetensors", "labels.safetensors", "evidence.safetensors"):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_auto_on_several_devices_uses_one_of_them(files, monkeypatch):
    monkeypatch.setattr("raretag.core.ranker.MANY_LABELS", 40)
    said = []
    record = run(compose(None, [], str(files / "train.svm"), train__devices=2), None, message=said.append)
    assert record["method"]["ranks"]
    assert record["config"]["train"]["devices"] == 1
    assert any("is fitted by one process: one device is used" in line for line in said)


def test_several_processes_are_refused_before_they_start(files):
    config = compose(None, [], str(files / "train.svm"), method__name="centroids", train__devices=2)
    with pytest.raises(UserError, match="centroids is fitted by one process"):
        run(config, None)


def test_images_are_refused():
    data = raretag.data.from_arrays(np.zeros((20, 3, 8, 8), np.float32), [["a"], ["b"]] * 10)
    with pytest.raises(UserError, match="centroids reads feature vectors"):
        raretag.train(data, method="centroids", listener=Listener())


def test_arrays_texts_and_dense_features(tmp_path):
    run_ = raretag.train((X, POSITIVE.astype(np.int8)), method="centroids", listener=Listener())
    assert run_.metrics.top["P@1"] > 0.6
    assert len(run_.predict(NEW, top=2).top(2)) == 80
    dense = raretag.train((X.toarray(), POSITIVE.toarray()), method="centroids", listener=Listener())
    assert dense.metrics.top["P@1"] == pytest.approx(run_.metrics.top["P@1"], abs=0.1)
    texts = [" ".join(f"w{column}" for column in X[[row]].indices) for row in range(300)]
    names = [[f"tag {label}" for label in POSITIVE[[row]].indices] for row in range(300)]
    of_texts = raretag.train((texts, names), method="centroids", out=tmp_path / "texts", listener=Listener())
    assert of_texts.metrics.top["P@1"] > 0.6
    best = load(tmp_path / "texts").predict(texts[:5], top=1).top(1)
    assert all(row[0][0].startswith("tag ") for row in best)


def test_unknown_labels_stay_unknown():
    unknown = sparse.csr_array(~POSITIVE.toarray() & (np.random.default_rng(2).random(POSITIVE.shape) < 0.2))
    states = sparse.csr_array(POSITIVE.astype(np.float32) + unknown * -100)
    states.data[states.data == -100] = np.nan
    store = LabelStore.from_sparse(states)
    assert store.known().excepted.sum() == unknown.sum()
    run_ = raretag.train((X, store), method="centroids", listener=Listener())
    assert 0 < run_.metrics.top["P@1"] <= 1


def test_suggestions_find_what_was_hidden(files):
    config = {"data.hide": "ppl", "data.keep": 0.7}
    settings = compose(None, [f"{key}={value}" for key, value in config.items()], str(files / "train.svm"))
    settings = settings.model_copy(update={"method": settings.method.model_copy(update={"name": "centroids"})})
    run(settings, files / "hidden")
    found = suggest(files / "hidden", most=60, folds=3)
    right = [POSITIVE[[int(one.item.partition("/")[2])]].toarray()[0, int(one.label)] for one in found]
    assert len({(one.item, one.label) for one in found}) == len(found) == 60
    assert np.mean(right) > 0.5
    assert sum(one.group == "tail" for one in found) >= 10
    assert found.promises[-1].size == 60


def test_the_page_explains_a_run(trained, tmp_path):
    pytest.importorskip("plotly")
    path, missing = write_report([trained], tmp_path / "report.html")
    page = path.read_text()
    assert "PSP@5" in page
    assert "Held-out items" in page
    assert not missing


def test_the_archive_ranks_as_the_model_does(trained, tmp_path):
    model = load(trained)
    assert export_ranking(model, tmp_path / "model.npz") < 1e-3
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        found = rank(dict(stored), NEW, 3)
    wanted = model.model.rank(Features(NEW), 3)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-3, atol=1e-3)
    with pytest.raises(UserError, match=r"exported as \.npz"):
        export_ranking(model, tmp_path / "model.onnx")


def test_weights_are_stored_small(trained):
    with safe_open(trained / "model.safetensors", "pt") as file:
        assert file.get_tensor("ranker.data").dtype == torch.float16


def test_items_are_split_along_their_rarest_labels():
    from raretag.labels import split as splits

    random = np.random.default_rng(0)
    rows = [[int(label) for label in random.integers(0, 9000, 3)] for _ in range(3000)]
    store = LabelStore.from_lists(rows, labels=9000)
    assert store.labels > splits._MANY_LABELS
    dealt = splits.split(store, [0.7, 0.1, 0.2], 0)
    assert sorted(np.concatenate(dealt.parts).tolist()) == list(range(3000))
    assert [len(part) for part in dealt.parts] == splits.part_sizes(3000, [0.7, 0.1, 0.2])
    other = splits.split(store, [0.7, 0.1, 0.2], 1)
    assert not np.array_equal(dealt.parts[2], other.parts[2])
    twice = LabelStore.from_lists([[label] for label in range(9000) for _ in range(5)], labels=9000)
    tested = splits.split(twice, [0.8, 0.2], 0).parts[1]
    assert np.bincount(tested // 5, minlength=9000).max() == 1  # one of five items of each label
