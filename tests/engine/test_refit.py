"""Training again on training and validation items: what teaches, what is measured, and what older runs do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from raretag.config.settings import checked, compose
from raretag.core.errors import UserError
from raretag.data.arrays import from_arrays
from raretag.methods import BinaryCrossEntropy
from support.runs import run

PLAIN = ["method.name=binary_cross_entropy", "train.epochs=4", "model.width=8"]


def arrays(items=200, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(items, 40)).astype(np.float32)
    return x, (x[:, :3] + 0.3 * random.normal(size=(items, 3)) > 0.6).astype(float)


def trained(folder, *changes, **more):
    return run(compose(None, [*PLAIN, *changes]), folder, data=from_arrays(*arrays()), **more)


def test_feature_vectors_are_trained_again_on_everything_and_the_record_says_so(tmp_path):
    found = trained(tmp_path / "a")
    items = found["data"]["items"]
    assert found["config"]["train"]["refit"] is True
    assert found["fitted_on"]["model"] == {
        "parts": ["train", "validation"],
        "items": items["train"] + items["validation"],
        "epochs": 4,
    }
    assert found["fitted_on"]["thresholds"] == {"from": "validation items", "items": items["validation"]}


def test_validation_numbers_are_those_of_the_model_that_never_saw_these_items(tmp_path):
    once = trained(tmp_path / "once", "train.refit=false")
    again = trained(tmp_path / "again", "train.refit=true")
    assert once["thresholds"] == again["thresholds"]
    assert once["metrics"]["epochs"] == again["metrics"]["epochs"]
    scores = [load_file(tmp_path / name / "logits.safetensors") for name in ("once", "again")]
    assert scores[0]["validation"].equal(scores[1]["validation"])
    assert not scores[0]["test"].equal(scores[1]["test"])


def test_the_model_is_that_of_a_run_on_all_items(tmp_path):
    trained(tmp_path / "again")
    run(
        compose(None, [*PLAIN, "train.refit=false"]),
        tmp_path / "all",
        data=from_arrays(*arrays()).all_teaching(),
    )
    again, whole = (load_file(tmp_path / name / "model.safetensors") for name in ("again", "all"))
    assert all(again[name].equal(whole[name]) for name in whole)


def test_it_trains_up_to_the_epoch_that_validation_found_best(tmp_path):
    changes = ["train.epochs=12", "train.learning_rate=0.05"]
    found = trained(tmp_path / "a", "train.patience=1", *changes)
    values = [row["validation"]["mAP"]["total"] for row in found["metrics"]["epochs"]]
    assert found["fitted_on"]["model"]["epochs"] == values.index(max(values)) + 1 < len(values)
    assert trained(tmp_path / "b", *changes)["fitted_on"]["model"]["epochs"] == 12
    short, full = (load_file(tmp_path / name / "logits.safetensors")["test"] for name in "ab")
    assert not short.equal(full)


def test_a_run_that_ended_in_its_second_fit_goes_on_to_the_same_numbers(tmp_path):
    class StoppedError(Exception):
        pass

    def stop(share):
        if share > 0.4:
            raise StoppedError

    config = compose(None, PLAIN)
    with pytest.raises(StoppedError):
        run(config, tmp_path / "stopped", data=from_arrays(*arrays()), progress=stop)
    straight = run(config, tmp_path / "straight", data=from_arrays(*arrays()))
    resumed = run(config, tmp_path / "stopped", data=from_arrays(*arrays()), resume=True)
    assert straight["metrics"]["final"] == resumed["metrics"]["final"]


def test_images_objects_and_hidden_labels_are_trained_once(tmp_path):
    images = torch.rand(60, 1, 8, 8)
    data = from_arrays(images.numpy(), arrays(60)[1])
    found = run(compose(None, [*PLAIN, "model.name=mlp"]), tmp_path / "images", data=data)
    assert found["config"]["train"]["refit"] is False
    found = run(compose(None, PLAIN), tmp_path / "object", data=from_arrays(*arrays()), method=BinaryCrossEntropy())
    assert found["config"]["train"]["refit"] is False
    with pytest.raises(UserError, match=r"train\.refit is true, but the model or the method is an object"):
        trained(tmp_path / "no", "train.refit=true", method=BinaryCrossEntropy())


def test_the_file_of_an_older_run_is_run_as_it_was():
    tree = compose(None, PLAIN).model_dump(mode="json")
    assert tree["train"].pop("refit") == "auto"
    assert checked(tree).train.refit is False
    assert checked({"train": {"epochs": 3}}).train.refit == "auto"
