"""A local cluster of two workers: the record of one process, a lost worker, a sweep, predictions of many workers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import raretag
from raretag.config.settings import checked, compose
from raretag.core.listener import Listener
from raretag.engine.run import run
from support.many_labels import words_and_labels, write_svm

pytest.importorskip("ray")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

SETTINGS = {
    "data": {"name": "digits", "hide": "ppl", "keep": 0.6},
    "method": {"name": "partial_label_masking"},
    "sampler": {"name": "class_aware"},
    "model": {"name": "mlp"},
    "train": {"epochs": 2, "batch_size": 128, "precision": "64-true", "accelerator": "cpu", "save_every": 1},
    "log": "none",
}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray

    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "120"
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def settings(**train):
    return checked({**SETTINGS, "train": {**SETTINGS["train"], **train}})


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    run(settings(), folder, listener=Listener())
    return numbers(folder)


def numbers(folder):
    record = json.loads((Path(folder) / "record.json").read_text())
    return record["metrics"]["final"]["mAP"]["total"], [row["loss"] for row in record["metrics"]["epochs"]]


def test_two_workers_give_the_record_of_one_process(tmp_path, alone):
    from raretag.integrations.ray import train_on_ray

    train_on_ray(settings(devices=2), tmp_path / "run")
    mean, losses = numbers(tmp_path / "run")
    assert mean == pytest.approx(alone[0], abs=1e-5)
    assert losses == pytest.approx(alone[1], abs=1e-5)


def test_a_lost_worker_is_replaced_and_the_run_goes_on(tmp_path, alone):
    from raretag.integrations.ray import train_on_ray

    (tmp_path / "lossy.py").write_text(LOSSY)
    config = checked({**settings(devices=2).model_dump(exclude_unset=True), "log": "lossy:Lossy"})
    train_on_ray(config, tmp_path / "run", python_path=str(tmp_path))
    assert (tmp_path / "lost").is_file()
    assert numbers(tmp_path / "run")[0] == pytest.approx(alone[0], abs=1e-5)


LOSSY = '''
import os
from pathlib import Path


class Lossy:
    """Ends its process without a word after the first epoch, once."""

    def begin(self, name, config, folder, epochs_done):
        self.mark = folder.parent / "lost"

    def epoch(self, number, numbers):
        if number == 1 and not self.mark.exists():
            self.mark.touch()
            os._exit(1)

    def end(self, numbers):
        pass
'''


@pytest.mark.parametrize("method", ["blend", "logistic_regression"])
def test_folds_and_blocks_of_labels_as_tasks_give_the_model_of_one_process(method, tmp_path, monkeypatch):
    """To the bit: a task has one thread, and so has the process here."""
    from raretag.integrations import ray as on_ray

    monkeypatch.setattr("raretag.solvers.newton.CACHE", 1200)  # blocks of 10 labels, 120 columns each
    write_svm(tmp_path / "my.svm", *words_and_labels())
    changes = ["data.hide=ppl", "data.keep=0.6", "data.test=0.2", "train.devices=2"]
    config = compose(None, changes, str(tmp_path / "my.svm"), method__name=method)
    calls = []
    mapper = on_ray.on_ray(2)

    def counted(function, shared, parts):
        calls.append(len(parts))
        return mapper(function, shared, parts)

    monkeypatch.setattr(on_ray, "on_ray", lambda workers: counted)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run(checked({**config.model_dump(), "train": {}}), tmp_path / "one", listener=Listener())
        on_ray.train_on_ray(config, tmp_path / "two")
    finally:
        torch.set_num_threads(threads)
    assert max(calls) == 4 * (5 if method == "blend" else 3)  # blocks x folds
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two
    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")


def test_a_sweep_with_ray_tune(tmp_path):
    from raretag.integrations.ray import sweep_with_ray
    from raretag.integrations.sweep import best_of, read_trials

    tree = {**SETTINGS, "method": {"name": "focal"}, "train": {"epochs": 2, "batch_size": 128, "accelerator": "cpu"}}
    found = sweep_with_ray(tree, {"train.learning_rate": [0.02, 1e-9]}, tmp_path / "sweep", 4, lambda trial: None)
    assert [trial.number for trial in found] == [0, 1, 2, 3]
    assert read_trials(tmp_path / "sweep") == found
    assert {trial.state for trial in found} <= {"finished", "stopped"}
    assert best_of(found).settings["train.learning_rate"] in (0.02, 1e-9)
    assert sweep_with_ray(tree, {"train.learning_rate": [0.02]}, tmp_path / "sweep", 4, lambda trial: None) == found


def test_predictions_of_many_workers_are_those_of_one(tmp_path):
    import ray.data

    from raretag.integrations.ray import Predictor

    X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    folder = str(tmp_path / "run")
    raretag.train((X, X[:, :2] > 0.3), method="logistic_regression", out=folder, listener=Listener())
    rows = ray.data.from_items([{"row": row, "item": X[row]} for row in range(len(X))])
    found = rows.map_batches(Predictor, fn_constructor_args=[folder], concurrency=2, batch_size=16).take_all()
    found = sorted(found, key=lambda one: one["row"])
    expected = raretag.load(folder).predict(X)
    assert np.array_equal(np.stack([one["probabilities"] for one in found]), expected.probabilities)
    assert [list(one["labels"]) for one in found] == expected.chosen_labels()
