"""A run folder as its user meets it: loaded, asked, refused with a reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import raretag
from raretag.config.settings import Config, compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.data.arrays import from_arrays
from raretag.data.sources import load as load_data
from raretag.engine import run as engine
from raretag.runs.card import read_card, seal_of
from raretag.runs.run import open_run
from raretag.serve.readers import ReadOptions, open_reader
from raretag.serve.retune import retune
from support.served import digits, feature_rows, train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return digits(tmp_path_factory.mktemp("digits") / "run")


@pytest.fixture(scope="module")
def table_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    feature_rows(folder / "rows.csv")
    settings = ["data.features=[a,b,c]", "data.labels=tags", "data.id=name", "train.epochs=10"]
    return train(folder / "run", settings, folder / "rows.csv")


@pytest.fixture
def copied(run, tmp_path):
    """Only what must be shipped."""
    for name in ("card.json", "model.safetensors"):
        shutil.copy(run / name, tmp_path / name)
    return tmp_path


def edit(folder, seal=False, **changes):
    card = {**json.loads((folder / "card.json").read_text()), **changes}
    if seal:
        card["seal"] = seal_of(card)
    (folder / "card.json").write_text(json.dumps(card))


def test_two_files_are_enough_and_say_what_the_run_said(run, copied):
    found = raretag.load(copied).predict(part="test")
    logits = load_file(run / "logits.safetensors")["test"].double()
    card = read_card(run)
    calibrated = logits * torch.tensor(card.calibration.scale) + torch.tensor(card.calibration.shift)
    np.testing.assert_allclose(found.probabilities, calibrated.sigmoid().numpy(), atol=1e-6)
    decided = calibrated.sigmoid() > torch.tensor(card.thresholds, dtype=torch.float64)
    near = (calibrated.sigmoid() - torch.tensor(card.thresholds)).abs() < 1e-6
    assert ((torch.from_numpy(found.chosen) == decided) | near).all()


def test_loading_leaves_the_random_numbers_of_the_caller_alone(run):
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    raretag.load(run)
    assert torch.equal(torch.rand(2), wanted)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"thresholds": [0.1] * 10}, "seal"),
        ({"labels": ["another"] + [f"l{n}" for n in range(9)]}, "seal"),
        ({"format": "raretag model card 1"}, "format"),
    ],
)
def test_an_edited_card_is_refused(copied, changes, reason):
    edit(copied, **changes)
    with pytest.raises(UserError, match=reason):
        raretag.load(copied)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"thresholds": [0.1] * 9}, "10 labels, but thresholds has 9"),
        ({"thresholds": [1.5] * 10}, "between 0 and 1"),
        ({"thresholds": [None] * 10}, "not a number"),
        ({"labels": ["same"] * 10}, "twice"),
        ({"calibration": {"scale": [0.0] * 10, "shift": [0.0] * 10}}, "above 0"),
        ({"config": {"no": "settings"}}, "configuration"),
        ({"input_shape": "large"}, "input_shape"),
    ],
)
def test_a_sealed_card_that_contradicts_itself_is_refused(copied, changes, reason):
    edit(copied, seal=True, **changes)
    with pytest.raises(UserError, match=reason):
        raretag.load(copied)


def test_a_card_with_other_labels_than_weights_is_refused(copied):
    card = json.loads((copied / "card.json").read_text())
    nine = {key: card[key][:9] for key in ("labels", "thresholds", "training_positives", "training_negatives")}
    nine["calibration"] = {key: values[:9] for key, values in card["calibration"].items()}
    edit(copied, seal=True, **nine)
    with pytest.raises(UserError, match=r"does not fit the model.*\(10"):
        raretag.load(copied)


def test_weights_of_another_model_are_refused(copied):
    weights = load_file(copied / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name] + 1}, copied / "model.safetensors")
    with pytest.raises(UserError, match="hash"):
        raretag.load(copied)


def test_a_folder_without_a_model_is_named(tmp_path, copied):
    with pytest.raises(UserError, match="not a run folder"):
        raretag.load(tmp_path / "nowhere")
    (copied / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors"):
        raretag.load(copied)
    (copied / "card.json").write_text('{"format": ')
    with pytest.raises(UserError, match="not JSON"):
        raretag.load(copied)


def test_arrays_tensors_and_files_give_the_same(run, tmp_path):
    model = raretag.load(run)
    inputs = load_data(Config().data, 0).test.inputs.batch(torch.arange(5))
    wanted = model.predict(inputs)
    np.save(tmp_path / "x.npy", inputs.numpy())
    for data in (inputs.numpy(), inputs.tolist(), tmp_path / "x.npy", str(tmp_path / "x.npy")):
        np.testing.assert_array_equal(model.predict(data).probabilities, wanted.probabilities)
    assert list(wanted.ids) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (np.zeros((2, 1, 8, 8)), r"reads \[N, 1, 16, 16\]"),
        (np.full((2, 1, 16, 16), np.nan), "blank or infinite"),
        (["a text"], "expected an array of numbers"),
        ("no/such/file.csv", "does not exist"),
        ("digit", "does not exist"),
        (pa.table({"x": [1.0]}), "cannot hold"),
    ],
)
def test_items_that_the_model_cannot_read_are_refused(run, data, reason):
    with pytest.raises(UserError, match=reason):
        raretag.load(run).predict(data)


def test_top_is_sorted_and_agrees_with_the_probabilities(run):
    found = raretag.load(run).predict(part="validation")
    for row, best in enumerate(found.top(3)):
        order = sorted(range(10), key=lambda label: -found.probabilities[row, label])[:3]
        assert [name for name, _ in best] == [found.labels[label] for label in order]
    assert found.table(top=3).column_names == ["id", "labels", "top_labels", "top_probabilities"]
    assert found.table().column_names == ["id", "labels", *found.labels]


def test_a_table_is_read_as_in_training_whatever_else_it_holds(table_run):
    model, rows = raretag.load(table_run), table_run.parent / "rows.csv"
    everything, test = model.predict(rows), model.predict(rows, part="test")
    assert list(everything.ids) == [f"item{row}" for row in range(60)]
    place = [everything.ids.index(name) for name in test.ids]
    np.testing.assert_allclose(everything.probabilities[place], test.probabilities, atol=1e-6)
    logits = load_file(table_run / "logits.safetensors")["test"]
    np.testing.assert_allclose(model.probabilities(logits), test.probabilities, atol=1e-6)


def test_files_frames_and_arrays_of_features_agree(table_run, tmp_path):
    values = feature_rows(tmp_path / "again.csv")
    model = raretag.load(table_run)
    wanted = model.predict(tmp_path / "again.csv").probabilities
    frame = pa.table({"c": values[:, 2], "b": values[:, 1], "other": values[:, 0] * 9, "a": values[:, 0]})
    np.testing.assert_allclose(model.predict(frame).probabilities, wanted, atol=1e-6)
    np.testing.assert_allclose(model.predict(values).probabilities, wanted, atol=1e-6)
    with pytest.raises(UserError, match="no column 'b'"):
        model.predict(frame.drop_columns(["b"]))
    renamed = frame.rename_columns(["c", "bb", "other", "a"])
    np.testing.assert_allclose(model.predict(renamed, columns=["a", "bb", "c"]).probabilities, wanted, atol=1e-6)


def test_a_model_of_arrays_reads_tables_of_as_many_columns(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 3)).astype(np.float32)
    model = raretag.load(train(tmp_path / "run", ["model.name=mlp"], own=from_arrays(x, (x > 0).astype(np.float32))))
    wanted = model.predict(x).probabilities
    frame = pa.table({"first": x[:, 0], "second": x[:, 1], "third": x[:, 2]})
    named = frame.append_column("id", pa.array([f"item {row}" for row in range(80)]))
    unnamed_index = frame.append_column("__index_level_0__", pa.array(range(80)))
    pyarrow.csv.write_csv(frame, tmp_path / "new.csv")
    for data in (frame, named, unnamed_index, tmp_path / "new.csv"):
        np.testing.assert_allclose(model.predict(data).probabilities, wanted, atol=1e-6)
    assert model.predict(named).ids[:2] == ["item 0", "item 1"]
    turned = frame.select(["third", "second", "first"])
    np.testing.assert_allclose(
        model.predict(turned, columns=["first", "second", "third"]).probabilities, wanted, atol=1e-6
    )
    with pytest.raises(UserError, match="2 columns of numbers and the model reads 3"):
        model.predict(frame.drop_columns(["third"]))
    with pytest.raises(UserError, match=r"\[80, 2\]; the model reads \[N, 3\]"):
        model.predict(frame, columns=["first", "second"])


def test_a_blank_feature_stops_or_is_left_out(table_run, tmp_path):
    (tmp_path / "new.csv").write_text("name,a,b,c\nx,1,2,3\ny,,2,3\nz,3,4,5\n")
    model = raretag.load(table_run)
    with pytest.raises(UserError, match=r"1 of 3 items.*y: a feature is blank"):
        model.predict(tmp_path / "new.csv")
    assert list(model.predict(tmp_path / "new.csv", bad_items="skip").ids) == ["x", "z"]
    (tmp_path / "new.csv").write_text("name,a,b,c\nx,1,2,3\ny,high,2,3\n")
    with pytest.raises(UserError, match=r"line 3.*'high'.*expected a number"):
        model.predict(tmp_path / "new.csv")


def test_texts_become_the_words_of_training(tmp_path):
    rows = [f'{{"text": "{word} and more {word}", "tags": ["{word}"]}}' for word in ("sun", "rain", "snow") * 20]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows))
    model = raretag.load(train(tmp_path / "run", ["train.epochs=20"], tmp_path / "texts.jsonl"))
    found = model.predict(["the rain", "a word never seen", ""])
    assert found.top(1)[0][0][0] == "rain"
    np.testing.assert_array_equal(found.probabilities[1], found.probabilities[2])
    frame = pa.table({"text": ["the rain"]})
    np.testing.assert_allclose(model.predict(frame).probabilities, found.probabilities[:1], rtol=1e-5)
    with pytest.raises(UserError, match="does not exist"):
        model.predict("the rain")
    for wrong, reason in (
        ([1, 2], "reads texts"),
        (tmp_path, "reads texts"),
        ({"text": 1}, "expected a list of texts"),
    ):
        with pytest.raises(UserError, match=reason):
            model.predict(wrong)


def test_images_of_a_folder_a_table_and_memory_through_a_frozen_encoder(tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "photos").mkdir()
    lines = ["image,tags"]
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (30, 12, 10, 3), dtype=np.uint8)
    for number, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(tmp_path / f"photos/{number:02d}.png")
        lines.append(f"photos/{number:02d}.png,{'even' if number % 2 == 0 else 'odd'}")
    (tmp_path / "photos.csv").write_text("\n".join(lines))
    small = ["data.size=16", "encoder.name=small_resnet", "encoder.depth=8", "encoder.width=4"]
    folder = train(tmp_path / "run", small, tmp_path / "photos.csv")
    model = raretag.load(folder)
    wanted = model.predict(tmp_path / "photos.csv")
    assert list(wanted.ids)[:2] == ["photos/00.png", "photos/01.png"]
    for data in (tmp_path / "photos", pictures):
        np.testing.assert_allclose(model.predict(data).probabilities, wanted.probabilities, atol=1e-6)
    test = model.predict(part="test")
    np.testing.assert_allclose(
        model.probabilities(load_file(folder / "logits.safetensors")["test"]), test.probabilities, atol=1e-5
    )
    (tmp_path / "photos/05.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"05.png"):
        model.predict(tmp_path / "photos")
    assert len(model.predict(tmp_path / "photos", bad_items="skip")) == 29
    edit(folder, seal=True, encoder={"sha256": "0" * 64})
    with pytest.raises(UserError, match="other weights"):
        raretag.load(folder)


@pytest.mark.parametrize("method", ["comic", "oltr"])
def test_methods_that_read_the_outputs_in_their_own_way_do_so_again(tmp_path, method):
    folder = digits(tmp_path / "run", f"method.name={method}", "train.epochs=2")
    logits = load_file(folder / "logits.safetensors")["validation"]
    model = raretag.load(folder)
    found = model.predict(part="validation").probabilities
    np.testing.assert_allclose(model.probabilities(logits), found, atol=1e-5)


def test_a_module_of_the_users_own_is_given_again(tmp_path):
    def own():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 10))

    folder = train(tmp_path / "run", ["data.largest=60"], model=own())
    logits = load_file(folder / "logits.safetensors")["test"]
    model = raretag.load(folder, model=own())
    np.testing.assert_allclose(model.probabilities(logits), model.predict().probabilities, atol=1e-6)
    with pytest.raises(UserError, match="module of your own"):
        raretag.load(folder)


def test_a_run_in_memory_predicts_as_its_folder_does(tmp_path):
    config = compose(None, ["train.epochs=1", "data.largest=60", "model.name=mlp"])
    run = engine.run(config, tmp_path / "run", listener=Listener())
    learns = [parameter.requires_grad for parameter in run.model.parameters()]
    found, wanted = raretag.load(run).predict(), raretag.load(tmp_path / "run").predict()
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-6)
    assert [parameter.requires_grad for parameter in run.model.parameters()] == learns
    opened = open_run(tmp_path / "run", with_data=False)
    np.testing.assert_array_equal(raretag.load(opened).predict().probabilities, wanted.probabilities)
    with pytest.raises(UserError, match="neither its model nor a folder"):
        raretag.load(replace(opened, folder=None))


def test_thresholds_can_be_tuned_again_and_nothing_else_changes(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    before = read_card(tmp_path / "run")
    after = retune(tmp_path / "run", goal="recall", wanted=0.9)
    assert after.tuned["goal"] == "recall"
    new = read_card(tmp_path / "run").model_dump()
    changed = {key for key, value in before.model_dump().items() if value != new[key]}
    assert changed <= {"thresholds", "tuned", "seal", "calibration"}
    assert "thresholds" in changed
    chosen = raretag.load(tmp_path / "run").predict().chosen.mean()
    retune(tmp_path / "run", threshold=1.0)
    assert not raretag.load(tmp_path / "run").predict().chosen.any()
    assert chosen > 0
    retune(tmp_path / "run")
    assert read_card(tmp_path / "run") == before


def test_a_named_set_with_other_inputs_is_refused(run):
    card = read_card(run)
    with pytest.raises(UserError, match="differently from the training data"):
        open_reader("digits", card.model_copy(update={"input_shape": [1, 8, 8]}), ReadOptions(part="test"))
