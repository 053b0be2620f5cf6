"""A search over settings with Optuna: poor trials stop early, and an interrupted sweep goes on."""

from __future__ import annotations

import json

import pytest

from raretag import UserError
from raretag.integrations.sweep import (
    Range,
    Trial,
    best_of,
    choices_of,
    configured,
    read_sweep,
    read_trials,
    run_trial,
    sweep_with_optuna,
)
from support.paths import REPOSITORY
from support.runs import run

SWEEP = """
data: {name: digits}
method: {name: focal}
model: {name: mlp}
train: {epochs: 3, batch_size: 128}
log: none
search:
  train.learning_rate: {low: 1e-6, high: 0.05, log: true}
  method.gamma: [0.5, 2.0]
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "my.yaml").write_text(SWEEP)
    return tmp_path / "my.yaml"


def test_the_section_search(file):
    tree, space = read_sweep(file, {"seed": 3})
    assert space == {"train.learning_rate": Range(1e-6, 0.05, True), "method.gamma": [0.5, 2.0]}
    config = configured(tree, {"train.learning_rate": 0.01, "method.gamma": 2.0})
    assert (config.seed, config.train.learning_rate, config.method.options) == (3, 0.01, {"gamma": 2.0})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a word", "expected a list"),
        ({"low": 2, "high": 1}, "expected a list"),
        ({"low": 0, "high": 1, "log": True}, "above 0"),
    ],
)
def test_mistakes_are_one_sentence(value, message):
    with pytest.raises(UserError, match=message):
        choices_of("train.epochs", value)


def test_the_example_is_a_sweep():
    _, space = read_sweep(REPOSITORY / "examples" / "sweep.yaml", {})
    assert space["train.learning_rate"] == Range(0.0003, 0.03, True)


def test_a_sweep_without_a_search_is_refused(tmp_path):
    (tmp_path / "plain.yaml").write_text("method: focal\n")
    with pytest.raises(UserError, match="no section search"):
        read_sweep(tmp_path / "plain.yaml", {})
    (tmp_path / "wrong.yaml").write_text("search: {train.epoch: [1]}\n")
    with pytest.raises(UserError, match="did you mean 'epochs'"):
        read_sweep(tmp_path / "wrong.yaml", {})


def test_the_best_is_a_finished_one():
    trials = [Trial(0, {}, 0.9, 1, "stopped"), Trial(1, {}, 0.5, 3, "finished"), Trial(2, {}, None, 0, "failed")]
    assert best_of(trials) is trials[1]


def test_a_trial_is_the_run_of_its_configuration(tmp_path):
    """With unknown labels and the sampler of the paper, as they are there."""
    (tmp_path / "my.yaml").write_text(
        SWEEP.replace("{name: digits}", "{name: digits, hide: ppl, keep: 0.4}")
        .replace("{name: focal}", "{name: distribution_balanced}")
        .replace("  method.gamma: [0.5, 2.0]\n", "")
    )
    tree, _ = read_sweep(tmp_path / "my.yaml", {})
    config = configured(tree, {"train.learning_rate": 0.01, "train.epochs": 1})
    trial = run_trial(config, tmp_path / "trial", lambda *_: None)
    alone = run(config, tmp_path / "alone")
    assert json.loads((tmp_path / "trial" / "record.json").read_text())["metrics"] == alone["metrics"]
    assert trial.last == alone["metrics"]["epochs"][-1]["validation"]["mAP"]["total"]


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_a_sweep_is_one_list_and_goes_on_where_it_stopped(file, tmp_path):
    pytest.importorskip("optuna")
    tree, space = read_sweep(file, {})
    folder, seen = tmp_path / "sweep", []
    first = sweep_with_optuna(tree, space, folder, 4, seen.append)
    assert [trial.number for trial in first] == [0, 1, 2, 3]
    assert read_trials(folder) == first == seen
    again = sweep_with_optuna(tree, space, folder, 6, seen.append)
    assert again[:4] == first
    assert [trial.number for trial in seen] == list(range(6))
    states = {trial.state for trial in again}
    assert "finished" in states
    assert states <= {"finished", "stopped"}
    best = best_of(again)
    record = json.loads((folder / f"trial-{best.number:03d}" / "record.json").read_text())
    assert record["metrics"]["epochs"][-1]["validation"]["mAP"]["total"] == best.mAP
    assert f"gamma: {best.settings['method.gamma']}" in (folder / "best.yaml").read_text()


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")
def test_trials_that_fall_behind_are_stopped(file, tmp_path):
    pytest.importorskip("optuna")
    tree, _ = read_sweep(file, {})
    space = {"train.learning_rate": [0.02, 1e-9]}
    found = sweep_with_optuna(tree, space, tmp_path / "sweep", 10, lambda trial: None)
    stopped = [trial for trial in found if trial.state == "stopped"]
    assert stopped
    assert all(trial.epochs < 3 for trial in stopped)
    assert best_of(found).settings["train.learning_rate"] == 0.02
