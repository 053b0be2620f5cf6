"""A text encoder that is trained further: what it starts from, what changes, and what a run folder is enough for."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import raretag
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import SILENT
from raretag.data import from_table
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.encoder import SentenceEncoder
from raretag.engine.run import run as trained
from raretag.models.text_transformer import TextTransformer
from raretag.serve.export import export
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


def model_inputs(model, ids, file):
    """What the network reads for rows of the table."""
    lines = [line.split(",")[0] for line in file.read_text().splitlines()[1:]]
    folder = model.card.settings.data.options["encoder"]
    made = inputs_from(model.card.inputs, [lines[int(name) - 1] for name in ids], encoder=folder)
    return made.batch(torch.arange(len(ids)))


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


def beside(texts, *changes):
    """`--fine-tune`: tuned networks beside the default."""
    file, encoder = texts
    return compose(None, [f"data.encoder={encoder}", "effort=quick", *changes], data=str(file), fine_tune__name="auto")


def test_tuned_networks_count_beside_the_default_and_are_served_with_it(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("raretag.engine.fine_tune.share_that_pays", lambda *given: 0.3)
    new = ["the red bird", "a car", ""]
    found = trained(beside(texts, "data.test=0.2"), tmp_path / "run")
    assert found.record.fitted_on["model"]["networks"] == 2
    assert found.record.fitted_on["model"]["share"] == 0.3
    assert found.record.fitted_on["thresholds"]["from"] == "out of fold"
    model = raretag.load(tmp_path / "run")
    assert model.predict(new).chosen_labels()[0] == ["red", "bird"]
    np.testing.assert_allclose(
        raretag.load(found).predict(new).probabilities, model.predict(new).probabilities, atol=1e-5
    )
    again = model.predict(part="test")
    logits = model.network(model_inputs(model, found.data.test.labels.ids, texts[0]))
    torch.testing.assert_close(logits, found.logits["test"], atol=1e-4, rtol=1e-4)
    assert len(again.ids) == len(found.data.test)
    with pytest.raises(UserError, match="is not exported"):
        export(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_a_data_set_of_ones_own_with_validation_items_is_tuned_on_all_of_them(texts):
    data = from_table(texts[0], encoder=str(texts[1]))
    found = raretag.train(data, effort="quick", fine_tune="auto", epochs=1, listener=SILENT)
    assert found.record.fitted_on["thresholds"]["items"] == len(data.train) + len(data.validation)


def test_without_an_encoder_there_is_nothing_to_tune(texts, tmp_path):
    with pytest.raises(UserError, match="behind a pretrained encoder, and these items have none"):
        run(beside(texts, "data.representation=tfidf"), tmp_path / "run")


def test_a_text_beside_other_columns_is_not_tuned(texts, tmp_path):
    words, *rows = texts[0].read_text().splitlines()
    lines = [f"{words},price", *(f"{row},{n}.5" for n, row in enumerate(rows))]
    texts[0].write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="several kinds of columns"):
        run(beside(texts, "data.text=text", "data.features=[price]"), tmp_path / "run")


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
