"""Mistakes of users, each answered with one line; most are found before anything is loaded."""

import subprocess
import sys

import pytest
import torch

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.targets import LabelStatistics
from raretag.labels.store import LabelStore
from support.runs import run

SMALL = ["data.largest=20", "train.epochs=2", "model.name=mlp", "model.width=8"]

MISTAKES = {
    "keep without hide": (["data.keep=0.5"], "pal and ppl need keep"),
    "hide without keep": (["data.hide=ppl"], "pal and ppl need keep"),
    "broken yaml": (["method.base={name: focal"], "is not a value"),
    "a recipe that is not there": (["train.recipe=cuy"], "did you mean 'cui'"),
    "an accelerator that is not there": (["train.accelerator=gpuu"], "accelerator"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_settings_are_refused_in_one_line(mistake):
    settings, says = MISTAKES[mistake]
    with pytest.raises(UserError, match=says) as caught:
        compose(None, settings)
    assert "\n" not in str(caught.value)


OPTIONS = {
    "what the engine gives": ("focal", ["method.seed=3"], "has no option 'seed'"),
    "a word for a number": ("role", ["method.expected=abc"], "expected a number or null"),
    "a head without the stage's parameters": ("lws", ["head.name=linear"], "wants the head 'scaled'"),
    "a model for images": ("focal", ["model.name=small_resnet", "encoder.name=mlp"], "cannot read inputs of shape"),
    "a base with a model of its own": ("partial_label_masking", ["method.base=lws"], "only a loss"),
    "parts of a batch": ("partial_asymmetric", ["train.accumulate=2"], "looks at a whole batch"),
}


@pytest.mark.parametrize("mistake", OPTIONS)
def test_objects_that_do_not_fit_are_refused_before_training(mistake, tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    method, settings, says = OPTIONS[mistake]
    model = [] if settings[0].startswith("model.name") else SMALL[2:]
    config = compose(None, [*SMALL[:2], *model, *settings], method__name=method)
    with pytest.raises(UserError, match=says):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_numbers_may_be_written_with_an_exponent():
    assert compose(None, ["train.learning_rate=1e-3"]).train.learning_rate == 1e-3


@pytest.mark.parametrize("changes", [["train.recipe=plm", "train.epochs=3"], ["train.epochs=3", "train.recipe=plm"]])
def test_a_recipe_replaces_what_a_file_said_but_not_what_is_said_beside_it(tmp_path, changes):
    (tmp_path / "c.yaml").write_text(compose(None, ["train.batch_size=7"]).to_yaml())
    config = compose(tmp_path / "c.yaml", changes)
    assert (config.train.optimizer, config.train.batch_size, config.train.epochs) == ("sgd", 128, 3)


def test_a_tensor_in_place_of_targets_is_named():
    from raretag import build_method

    method = build_method("focal", LabelStatistics.of_counts([1, 2, 3], 4), items=4)
    with pytest.raises(UserError, match=r"labels\.targets\(rows\)"):
        method.loss(torch.zeros(2, 3), torch.ones(2, 3))


def test_only_positives_for_a_method_that_ignores_unknown_labels_is_warned_of(tmp_path):
    said = []
    hidden = ["method.name=binary_cross_entropy", "data.hide=ppl", "data.keep=0.6"]
    run(compose(None, [*SMALL, *hidden]), tmp_path / "run", message=said.append)
    assert any("no training label is an observed negative" in line for line in said)
    said.clear()
    run(compose(None, SMALL), tmp_path / "other", message=said.append)
    assert not any("observed negative" in line for line in said)


def test_the_same_flags_resume_and_others_are_refused(tmp_path):
    def train(*more):
        words = [sys.executable, "-m", "raretag", "train", "--out", "r", "--seed", "1", "--set", "data.largest=20"]
        words += ["--set", "train.epochs=1", *more]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert train().returncode == 0
    assert train("--resume").returncode == 0
    refused = train("--resume", "--set", "train.batch_size=8")
    assert refused.returncode == 2
    assert "train.batch_size" in refused.stderr


def test_a_folder_in_place_of_a_data_file_is_called_one(tmp_path):
    """Such as a run that was killed before it wrote anything; the soak found it."""
    from raretag.cli.train import check_names

    with pytest.raises(UserError, match=r"is a folder and not a run folder"):
        check_names(compose(None, [f"data.name={tmp_path}"]))


def test_a_folder_whose_name_could_be_a_data_set_is_called_a_folder_too(tmp_path, monkeypatch):
    from raretag.cli.train import check_names

    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"'photos' is a folder and not a run folder"):
        check_names(compose(None, [], "photos"))


def test_a_store_gives_back_what_it_was_given():
    dense = torch.tensor([[1, 0, -1], [-100, 1, 0]])
    assert LabelStore.from_dense(dense).lists() == [[0], [1]]


def test_the_class_prior_of_a_first_run_serves_a_second(tmp_path):
    first = compose(
        None, [*SMALL, "data.hide=pal", "data.keep=0.5", "method.mode=ignore"], method__name="partial_asymmetric"
    )
    record = run(first, tmp_path / "first")
    prior = record["method"]["learned"]["class_prior"]
    assert len(prior) == 10
    assert all(0 < value < 1 for value in prior)
    options = [*SMALL, f"method.prior={tmp_path / 'first/record.json'}", "method.prior_threshold=0.01"]
    second = compose(None, options, method__name="partial_asymmetric")
    run(second, tmp_path / "second")
    with pytest.raises(UserError, match=r"record\.json of an earlier run"):
        run(compose(None, ["method.prior=none.json"], method__name="partial_asymmetric"), tmp_path / "third")
