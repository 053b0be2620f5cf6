"""A text encoder that is trained further: what it starts from, what changes, and what a run folder is enough for."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import raretag
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.data.inputs.encoder import SentenceEncoder
from raretag.models.text_transformer import TextTransformer
from raretag.solvers.regression import STRENGTHS, solved
from support.runs import run
from support.tiny_encoder import saved

pytest.importorskip("transformers")


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """A table of 60 texts, and the folder of an encoder."""
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    saved(tmp_path / "encoder", "mpnet")
    colours, things = ("red", "blue"), ("car", "bird")
    lines = [f"the {colours[n % 2]} {things[n % 3 > 0]},{colours[n % 2]};{things[n % 3 > 0]}" for n in range(60)]
    (tmp_path / "t.csv").write_text("text,tags\n" + "\n".join(lines) + "\n")
    return tmp_path / "t.csv", tmp_path / "encoder"


def settings(texts, *changes):
    file, encoder = texts
    return compose(None, ["train.fine_tune=true", f"data.encoder={encoder}", *changes], data=str(file))


def weights(folder):
    return raretag.load(folder).network.model.state_dict()


@pytest.mark.parametrize("method", ["auto", "distribution_balanced", "dynamic_pseudo_labels"])
def test_a_run_folder_predicts_without_the_encoder(texts, tmp_path, method):
    run(settings(texts, "train.epochs=2", f"method.name={method}"), tmp_path / "run")
    trained = weights(tmp_path / "run")
    before = TextTransformer(folder=str(texts[1])).state_dict()
    moved = [name for name, value in before.items() if not torch.equal(value, trained[f"backbone.{name}"])]
    assert any("word_embeddings" in name for name in moved)
    wanted = raretag.load(tmp_path / "run").predict(["the red bird", "a car", ""]).probabilities
    shutil.rmtree(texts[1])
    again = raretag.load(tmp_path / "run").predict(["the red bird", "a car", ""]).probabilities
    assert np.array_equal(again, wanted)


def test_the_head_begins_as_logistic_regression_on_the_frozen_vectors(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("raretag.data.inputs.encoder.fastest_type", lambda: torch.float32)
    still = ["train.epochs=1", "train.learning_rate=1e-12", "train.weight_decay=0", "data.validation=0", "data.test=0"]
    run(settings(texts, *still, "train.refit=false"), tmp_path / "run")
    found = weights(tmp_path / "run")["head.classify.weight"]
    data = raretag.load(tmp_path / "run").card
    lines = [line.split(",") for line in texts[0].read_text().splitlines()[1:]]
    vectors = torch.from_numpy(SentenceEncoder(texts[1]).vectors([text for text, _ in lines])) * 8**0.5
    positive = torch.tensor([[float(label in tags.split(";")) for label in data.labels] for _, tags in lines])
    fits = [solved(vectors, positive, strength / 8)[:, :-1] for strength in STRENGTHS]
    assert min(float((fit - found).abs().max()) for fit in fits) < 1e-3 * float(found.abs().max())


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        (["data.representation=tfidf"], "trains an encoder on tokens"),
        (["data.encoder=/nowhere"], "does not exist"),
        (["data.text=text", "data.features=[size]"], "on texts alone"),
        (["data.text=''", "data.features=[size]"], "no encoder to train further"),
    ],
)
def test_mistakes_are_answered(texts, tmp_path, changes, answer):
    file = tmp_path / "size.csv"
    rows = texts[0].read_text().splitlines()
    file.write_text("\n".join(f"{row},{'size' if n == 0 else n % 7}" for n, row in enumerate(rows)) + "\n")
    with pytest.raises(UserError, match=answer):
        run(settings((file, texts[1]), *changes), tmp_path / "run")
