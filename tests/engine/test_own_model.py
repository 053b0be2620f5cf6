"""The engine takes data and a model of the user's own."""

import numpy as np
import pytest
import torch
from torch import nn

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.data.arrays import from_arrays
from support.runs import run


def data(items=200, labels=3):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(items, 4)).astype(np.float32)
    return from_arrays(x, (x[:, :labels] > 0.5).astype(int))


def test_arrays_and_a_module_train_to_a_record(tmp_path):
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    record = run(
        compose(None, ["train.epochs=20", "train.learning_rate=0.03"]),
        tmp_path / "run",
        data=data(),
        model=model,
    )
    assert record["metrics"]["final"]["mAP"]["total"] > 0.85
    assert (tmp_path / "run/model.safetensors").exists()


def test_a_model_for_another_number_of_labels_is_refused_in_one_line(tmp_path):
    with pytest.raises(UserError, match=r"logits \(.*, 5\) do not match targets"):
        run(compose(None, []), tmp_path / "run", data=data(), model=nn.Linear(4, 5))


@pytest.mark.parametrize("reduce", ["entries", "rows", "kept", "sum"])
def test_a_step_in_parts_is_the_same_step(reduce, tmp_path):
    weights = []
    for parts in (1, 4):
        torch.manual_seed(0)
        settings = [f"train.accumulate={parts}", "train.epochs=2", "train.precision=64-true", "train.optimizer=sgd"]
        settings += [f"method.reduce={reduce}", "train.learning_rate=0.01"]
        model = nn.Linear(4, 3)
        run(compose(None, settings), tmp_path / str(parts), data=data(), model=model)
        weights.append(model.weight.detach().clone())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-9, atol=1e-12)


def test_a_loss_over_a_whole_batch_cannot_be_made_of_parts(tmp_path):
    config = compose(None, ["train.accumulate=2"], method__name="expected_positive")
    with pytest.raises(UserError, match="looks at a whole batch"):
        run(config, tmp_path / "run", data=data(), model=nn.Linear(4, 3))


def test_frozen_features_are_computed_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    settings = ["data.largest=20", "train.epochs=1", "encoder.name=small_resnet", "encoder.depth=8", "encoder.width=4"]
    said = [[], []]
    records = [run(compose(None, settings), tmp_path / str(turn), message=said[turn].append) for turn in (0, 1)]
    assert any("items, once" in line for line in said[0])
    assert not any("items, once" in line for line in said[1])
    assert records[0] == records[1]
    assert records[0]["config"]["model"]["name"] == "mlp"


def test_weights_of_the_best_epoch_are_kept(tmp_path):
    settings = ["train.epochs=40", "train.patience=3", "train.learning_rate=0.3", "train.schedule=constant"]
    record = run(compose(None, settings), tmp_path / "run", data=data(), model=nn.Linear(4, 3))
    seen = [row["validation"]["mAP"]["total"] for row in record["metrics"]["epochs"]]
    assert len(seen) - 1 - int(np.argmax(seen)) == 3
