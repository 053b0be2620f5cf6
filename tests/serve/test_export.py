"""Exported models say what PyTorch says, for batches of any size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import raretag
from raretag.serve.export import export
from raretag.serve.export_inputs import write_inputs
from support.paths import REPOSITORY
from support.served import digits, feature_rows, train

onnxruntime = pytest.importorskip("onnxruntime")
EXAMPLE = REPOSITORY / "examples" / "deploy_text.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return digits(
        tmp_path_factory.mktemp("digits") / "run", "model.name=small_resnet", "model.depth=8", "model.width=4"
    )


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    feature_rows(folder / "rows.csv")
    return train(folder / "run", ["data.features=[a,b,c]", "data.labels=tags", "data.id=name"], folder / "rows.csv")


def outputs(path, batch):
    if path.suffix == ".pt2":
        found = torch.export.load(path).module()(batch)
        return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]
    return onnxruntime.InferenceSession(str(path)).run(None, {"inputs": batch.numpy()})


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_logits_are_those_of_the_network_for_any_batch(run, tmp_path, ending):
    model, path = raretag.load(run), tmp_path / f"m.{ending}"
    assert export(model, path) < 1e-5
    for items in (1, 3, 50):
        batch = torch.rand(items, 1, 16, 16, generator=torch.Generator().manual_seed(items))
        (logits,) = outputs(path, batch)
        np.testing.assert_allclose(logits, model.logits(batch), atol=1e-5)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_raw_features_go_in_and_decisions_come_out(table_run, tmp_path, ending):
    model, path = raretag.load(table_run), tmp_path / f"m.{ending}"
    values = feature_rows(tmp_path / "rows.csv", seed=1).astype(np.float32)
    export(model, path, preprocess=True, decide=True)
    probabilities, chosen = outputs(path, torch.from_numpy(values))
    wanted = model.predict(values)
    np.testing.assert_allclose(probabilities, wanted.probabilities, atol=1e-5)
    clear = np.abs(wanted.probabilities - model.thresholds.numpy()) > 1e-5
    assert (chosen == wanted.chosen)[clear].all()
    assert clear.mean() > 0.9


def test_an_onnx_file_knows_its_labels(table_run, tmp_path):
    model = raretag.load(table_run)
    export(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert {value.shape[0] for value in (*session.get_inputs(), *session.get_outputs())} == {"batch"}
    about = session.get_modelmeta().custom_metadata_map
    assert tuple(json.loads(about["raretag"])["labels"]) == model.labels


def test_counts_of_words_become_the_weights_of_training(tmp_path):
    rows = [f'{{"text": "{word} and more {word}", "tags": ["{word}"]}}' for word in ("sun", "rain", "snow") * 20]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows))
    words = ["data.representation=tfidf", "data.characters=0"]
    model = raretag.load(train(tmp_path / "run", words, tmp_path / "texts.jsonl"))
    export(model, tmp_path / "m.onnx", preprocess=True)
    words = model.card.inputs["words"]
    texts = ["rain rain and sun", "", "snow"]
    counts = torch.tensor([[float(text.split().count(word)) for word in words] for text in texts])
    (logits,) = outputs(tmp_path / "m.onnx", counts)
    np.testing.assert_allclose(
        model.probabilities(torch.from_numpy(logits)), model.predict(texts).probabilities, atol=1e-5
    )


@pytest.mark.parametrize("method", ["comic", "oltr", "lws"])
def test_models_of_unusual_build_are_exported_too(tmp_path, method):
    model = raretag.load(digits(tmp_path / "run", f"method.name={method}", "train.epochs=2"))
    assert export(model, tmp_path / "m.onnx", decide=True) < 1e-5


DEPLOYED = {  # settings, and which files stand beside the graph
    "pairs of words": (["data.representation=tfidf", "data.ngrams=2", "data.words=60"], ["inputs"]),
    "pieces of words": (["data.representation=tfidf"], ["inputs"]),
    "all side by side": (["data.encoder=ENCODER", "data.prompt='query: '"], ["inputs", "encoder", "tokenizer"]),
    "an encoder that was trained": (
        ["data.encoder=ENCODER", "train.fine_tune=true", "train.epochs=2"],
        ["inputs", "tokenizer"],
    ),
}
NEW_TEXTS = [
    "a red car",
    "",
    "The RED, red bird's song",
    "Ünïcode ¿qué? 東京 x",
    "a  blue\tcar\nx yy",
    "zebra 3.5",
    "q",
]


@pytest.mark.parametrize("how", DEPLOYED)
def test_a_program_without_raretag_predicts_the_same_from_texts(how, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    from support.tiny_encoder import saved

    assert "import raretag" not in EXAMPLE.read_text()
    monkeypatch.setattr("raretag.data.inputs.encoder.fastest_type", lambda: torch.float32)
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    saved(tmp_path / "encoder", "mpnet")
    rows = [
        f'{{"text": "{a} {b} x {a}", "tags": ["{a}", "{b}"]}}' for a in ("red", "blue") for b in ("car", "bird") * 10
    ]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows))
    settings, beside = DEPLOYED[how]
    options = [one.replace("ENCODER", str(tmp_path / "encoder")) for one in settings]
    model = raretag.load(train(tmp_path / "run", options, tmp_path / "texts.jsonl"))
    export(model, tmp_path / "m.onnx", decide=True)
    files = write_inputs(model, tmp_path / "m.onnx")
    assert [file.name.split(".")[1] for file in files] == beside
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(files[0]), *NEW_TEXTS], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = model.predict(NEW_TEXTS)
    np.testing.assert_allclose([one["probabilities"] for one in found], wanted.probabilities, atol=1e-5)
    assert [sorted(one["labels"]) for one in found] == [sorted(labels) for labels in wanted.chosen_labels()]


PHOTOS = Path(__file__).parents[2] / "examples/photos_without_raretag.py"


def test_photographs_are_tagged_by_a_program_without_raretag(tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    rows, rng = ["photo,tags"], np.random.default_rng(0)
    for number in range(40):
        pixels = rng.integers(0, 90, (30, 24, 3), dtype=np.uint8)
        pixels[:, :, number % 3] += 120
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{('red', 'green', 'blue')[number % 3]}")
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    small = ["data.size=32", "encoder.name=small_resnet", "encoder.depth=8", "encoder.width=4"]
    model = raretag.load(train(tmp_path / "run", small, tmp_path / "photos.csv"))
    export(model, tmp_path / "photos.onnx", preprocess=True, decide=True)

    assert "raretag" not in {
        line.split()[1].split(".")[0] for line in PHOTOS.read_text().splitlines() if "import" in line
    }
    photos = [f"{number}.png" for number in range(6)]
    done = subprocess.run(
        [sys.executable, PHOTOS, "photos.onnx", *photos], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    wanted = model.predict([tmp_path / photo for photo in photos])
    for line, photo, labels, row in zip(
        done.stdout.splitlines(), photos, wanted.chosen_labels(), wanted.probabilities, strict=True
    ):
        found = json.loads(line)
        assert found["photo"] == photo
        assert sorted(found["tags"]) == sorted(labels)
        for label, probability in found["tags"].items():
            assert probability == pytest.approx(row[list(model.labels).index(label)], abs=2e-3)
