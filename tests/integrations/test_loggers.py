"""The numbers of a run in other tools: all of them, once, also after a resume."""

from __future__ import annotations

import sys

import pytest

import raretag
from raretag.core.listener import Listener


class Kept:
    """A logger of one's own."""

    calls: list = []  # noqa: RUF012

    def begin(self, name, config, folder, epochs_done):
        Kept.calls.append(("begin", name, config["method"]["name"], folder is None, epochs_done))

    def epoch(self, number, numbers):
        Kept.calls.append(("epoch", number, numbers))

    def end(self, numbers):
        Kept.calls.append(("end", numbers))


class Stop(Listener):
    def epoch(self, step, row):
        if step.epoch == 1:
            raise KeyboardInterrupt


def train(folder=None, log=(), data="digits", **options):
    return raretag.train(
        data, method="focal", out=folder, log=log, epochs=3, save_every=1, listener=Listener(), **options
    )


def interrupted(folder, log):
    with pytest.raises(KeyboardInterrupt):
        raretag.train("digits", method="focal", out=folder, log=log, epochs=3, save_every=1, listener=Stop())
    return train(folder, log, resume=True)


@pytest.fixture
def kept():
    Kept.calls = []
    return f"{__name__}:Kept"


def test_a_logger_of_ones_own_gets_all_numbers(kept):
    run = train(log=[kept], data={"name": "digits", "hide": "ppl", "keep": 0.6})  # also of labels partly unknown
    assert Kept.calls[0] == ("begin", "digits-focal-0", "focal", True, 0)
    assert [call[1] for call in Kept.calls[1:4]] == [0, 1, 2]
    last, end = Kept.calls[3][2], Kept.calls[4]
    assert last["validation/mAP/total"] == run.epochs[-1]["validation"]["mAP"]["total"]
    assert end[1]["final/mAP/total"] == run.metrics.mAP.total
    assert len(Kept.calls) == 5


def test_a_resumed_run_says_how_far_it_was(tmp_path, kept):
    interrupted(tmp_path / "run", [kept])
    begun = [call for call in Kept.calls if call[0] == "begin"]
    assert [call[-1] for call in begun] == [0, 2]
    assert [call[1] for call in Kept.calls if call[0] == "epoch"] == [0, 1, 2]


def test_a_solver_has_one_row(kept):
    raretag.train("digits", method="logistic_regression", log=kept, listener=Listener())
    assert [call[0] for call in Kept.calls] == ["begin", "epoch", "end"]


def test_tensorboard_by_default_where_it_is_installed(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(tmp_path / "run", log="auto")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    values = events.Scalars("validation/mAP/total")
    assert [event.step for event in values] == [0, 1, 2]
    assert values[-1].value == pytest.approx(run.epochs[-1]["validation"]["mAP"]["total"], abs=1e-6)


def test_none_writes_only_lines_of_json(tmp_path):
    train(tmp_path / "run", log="none")
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_package_that_is_not_there_is_said_before_training(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(raretag.UserError, match=r"--logger mlflow needs mlflow .*pip install 'raretag\[mlflow\]'"):
        train(log="mlflow")
    with pytest.raises(raretag.UserError, match="did you mean 'wandb'"):
        train(log="wanb")
    with pytest.raises(raretag.UserError, match="is not a Logger"):
        train(log="json:JSONDecoder")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_every_epoch_once_also_after_a_resume(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path / 'store'}")
    run = interrupted(tmp_path / "run", ["mlflow"])
    found = mlflow.search_runs(output_format="list")
    assert len(found) == 1
    assert found[0].data.params["method.name"] == "focal"
    assert found[0].data.metrics["final/mAP/total"] == run.metrics.mAP.total
    history = mlflow.MlflowClient().get_metric_history(found[0].info.run_id, "validation/mAP/total")
    assert [one.step for one in history] == [0, 1, 2]
    assert history[-1].value == run.epochs[-1]["validation"]["mAP"]["total"]


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = train(tmp_path / "run", ["wandb"])
    (folder,) = (tmp_path / "run" / "wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    content = file.read_bytes()
    assert all(repr(row["validation"]["mAP"]["total"]).encode() in content for row in run.epochs)
    assert b"final/mAP/total" in content


class Wandb:
    """The calls of Weights & Biases that are used, as its documentation has them; keeps what it got."""

    def __init__(self):
        self.begun, self.rows, self.summary, self.finished = [], {}, {}, 0

    def init(self, *, project=None, dir=None, id=None, name=None, config=None, resume=None, reinit=None):
        self.begun.append((project, name, config["method"]["name"], id, resume))
        return self

    def log(self, data, step=None):
        assert step not in self.rows
        self.rows[step] = data

    def finish(self):
        self.finished += 1


def test_weights_and_biases_by_its_published_calls(tmp_path, monkeypatch):
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    run = interrupted(tmp_path / "run", ["wandb"])
    (first, again) = wandb.begun
    assert first[:3] == again[:3] == ("raretag", "run", "focal")
    assert (first[3], first[4], again[4]) == (again[3], "never", "allow")
    assert {step: row["validation/mAP/total"] for step, row in wandb.rows.items()} == {
        row["epoch"]: row["validation"]["mAP"]["total"] for row in run.epochs
    }
    assert wandb.summary["final/mAP/total"] == run.metrics.mAP.total
    assert wandb.finished == 1
