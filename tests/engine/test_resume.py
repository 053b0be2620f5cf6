"""A run that was killed ends like one that was not, to the bit."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from raretag.config.settings import Train, compose
from raretag.core import chance
from raretag.core.listener import SILENT
from raretag.core.method import Method, Stage
from raretag.engine import checkpoint as state
from raretag.engine import run as engine
from raretag.engine.fit import stage_of
from support.runs import Calls

SETTINGS = {
    "plain": [],
    "memory": ["--method", "dynamic_pseudo_labels", "--set", "data.hide=ppl", "--set", "data.keep=0.6"],
    "masks": ["--method", "partial_label_masking", "--set", "train.average=0.9", "--set", "train.accumulate=2"],
    "two stages": ["--method", "oltr", "--set", "data.hide=ppl", "--set", "data.keep=0.6"],
    "stops early": ["--set", "train.patience=2", "--set", "train.learning_rate=0.05"],
}
QUICK = ["--set", "data.largest=40", "--set", "model.depth=8", "--set", "model.width=4", "--set", "train.epochs=4"]
QUICK += ["--set", "train.save_every=1", "--set", "train.batch_size=16"]


def start(*arguments, cwd):
    command = [sys.executable, "-m", "raretag", "train", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return errors


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Runs that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    done = {}

    def run(name):
        if name not in done:
            finish(start(*QUICK, *SETTINGS[name], "--out", name, cwd=folder))
            done[name] = folder / name
        return done[name]

    return run


def kill_after_some_steps(process, run, steps):
    """SIGKILL once the checkpoint has been written `steps` times."""
    wait_for_steps(process, run, steps)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()


def wait_for_steps(process, run, steps):
    written, before = 0, None
    while written < steps and process.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # also in the moment between two renames
            now = (run / state.LAST).stat().st_mtime_ns
            written += now != before
            before = now
        time.sleep(0.001)


def same(one, other):
    assert (one / "record.json").read_bytes() == (other / "record.json").read_bytes()
    for name in ("model.safetensors", "logits.safetensors"):
        left, right = load_file(one / name), load_file(other / name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)
    left, right = (state.read(run / state.LAST)["training"]["method"] for run in (one, other))
    assert left.keys() == right.keys()
    for key in left:
        torch.testing.assert_close(left[key], right[key], rtol=0, atol=0, equal_nan=True)


def check(name, steps, whole, folder):
    run = folder / "run"
    kill_after_some_steps(start(*QUICK, *SETTINGS[name], "--out", str(run), cwd=folder), run, steps)
    finish(start("--resume", str(run), cwd=folder))
    same(whole(name), run)
    assert len((run / "metrics.jsonl").read_text().splitlines()) == len(
        json.loads((run / "record.json").read_text())["metrics"]["epochs"]
    )


@pytest.mark.parametrize(("name", "steps"), [("memory", 7), ("masks", 12), ("two stages", 6)])
def test_a_killed_run_ends_as_if_nothing_had_happened(name, steps, whole, tmp_path):
    check(name, steps, whole, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(20))
def test_a_run_may_be_killed_at_any_step(attempt, whole, tmp_path):
    names = list(SETTINGS)
    check(names[attempt % len(names)], 1 + chance.number(attempt, 5) % 20, whole, tmp_path)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_is_answered_between_two_steps(number, code, whole, tmp_path):
    """No step is lost: with checkpoints at the ends of epochs only, the run goes on at the very next step."""
    run = tmp_path / "run"
    rare = ["--set", "train.save_every=1000000"]
    process = start(*QUICK, *SETTINGS["memory"], *rare, "--out", str(run), cwd=tmp_path)
    wait_for_steps(process, run, 2)  # the beginning, and the end of the first epoch
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert f"`raretag train --resume {run}` continues" in errors
    assert "Traceback" not in errors
    assert not (run / "writer.lock").exists()
    saved = state.read(run / state.LAST)["training"]["progress"]
    assert saved["step"] > 0
    finish(start("--resume", str(run), cwd=tmp_path))
    ended, expected = (json.loads((one / "record.json").read_text()) for one in (run, whole("memory")))
    assert ended["metrics"] == expected["metrics"]


SLOW_STEP = """
import time, torch
from raretag import Method, Objective
from raretag.objective import Focal, completion, reduction

class Slow(Method):
    def __init__(self) -> None:
        super().__init__(Objective(complete=completion("negative"), score=Focal(1.0), reduce=reduction("entries")))

    def loss(self, outputs, targets, context):
        print("in a step", flush=True)
        time.sleep(30)
        return super().loss(outputs, targets, context)
"""


@pytest.mark.parametrize("signals", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_step_that_takes_too_long_is_not_waited_for(signals, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_STEP)
    process = start(*QUICK, "--method", "slow:Slow", "--out", "run", cwd=tmp_path)
    for line in process.stdout:
        if line == "in a step\n":
            break
    for _ in range(signals):
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert time.monotonic() - sent < 20  # of the 30 that the step would take
    assert (signals == 2) or "--resume run` continues" in errors
    assert state.read(tmp_path / "run" / state.LAST)["training"]["progress"]["step"] == 0


SLOW_FIT = """
import time
from raretag.solvers.logistic_regression import LogisticRegression

class Slow(LogisticRegression):
    def solve(self, features, head, listener):
        print("in a fit", flush=True)
        for _ in range(3000):
            time.sleep(0.01)
        return super().solve(features, head, listener)
"""


def test_a_solver_ends_at_once_and_says_that_it_begins_again(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_FIT)
    process = start("--method", "slow:Slow", "--set", "data.largest=40", "--out", "run", cwd=tmp_path)
    for line in process.stdout:
        if line == "in a fit\n":
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert "continues it from the beginning" in errors
    assert "Traceback" not in errors


def test_auto_begins_and_continues(whole, tmp_path):
    """The same command from the first start to the end, whatever happens in between."""
    run = tmp_path / "run"
    words = (*QUICK, *SETTINGS["memory"], "--out", str(run), "--resume", "auto")
    kill_after_some_steps(start(*words, cwd=tmp_path), run, 4)
    finish(start(*words, cwd=tmp_path))
    same(whole("memory"), run)


@pytest.mark.parametrize("lost", ["last.ckpt", "both", "all but the configuration"])
def test_auto_continues_with_whatever_is_left(lost, tmp_path):
    settings = ["data.largest=20", "model.name=mlp", "train.epochs=2", "train.save_every=1", "method.name=focal"]
    config, folder = compose(None, settings), tmp_path / "run"

    class Ends(Calls):
        def epoch(self, step, row):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(config, folder, resume="auto", listener=Ends())
    names = {"last.ckpt": [state.LAST], "both": [state.LAST, state.PREVIOUS]}.get(lost)
    for name in names or []:
        (folder / name).write_bytes(b"torn")
    for path in [] if names else [path for path in folder.iterdir() if path.name != "config.yaml"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    record = engine.run(config, folder, resume="auto", listener=SILENT).record
    assert record.metrics == engine.run(config, tmp_path / "other", listener=SILENT).record.metrics


def test_a_torn_checkpoint_is_found_and_the_one_before_is_used(tmp_path):
    for number in (1, 2):
        state.save(tmp_path, {"number": number, "weights": torch.randn(1000)})
    said = []
    assert state.load(tmp_path, Calls(said.append))["number"] == 2
    assert not said
    last = tmp_path / state.LAST
    content = last.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF  # in the middle of the weights
    for torn in (content[: len(content) // 2], b"", content[:-10], bytes(flipped)):
        last.write_bytes(torn)
        said.clear()
        assert state.load(tmp_path, Calls(said.append))["number"] == 1
        assert "torn" in said[0]


def test_saving_never_leaves_the_folder_without_a_checkpoint(tmp_path, monkeypatch):
    state.save(tmp_path, {"number": 1})
    real, calls = os.replace, []

    def crash_at_the_second_rename(*paths):
        calls.append(paths)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*paths)

    monkeypatch.setattr(os, "replace", crash_at_the_second_rename)
    with pytest.raises(KeyboardInterrupt):
        state.save(tmp_path, {"number": 2})
    assert state.load(tmp_path, SILENT)["number"] == 1


@pytest.mark.parametrize(("epochs", "expected"), [(2, [0, 1]), (4, [0, 0, 0, 1]), (10, [0] * 9 + [1])])
def test_every_stage_has_its_epochs(epochs, expected):
    method = Method(None)
    method.stages = (Stage(share=0.9), Stage(share=0.1))
    settings = Train(epochs=epochs)
    assert [stage_of(method, settings, epoch)[0] for epoch in range(epochs)] == expected
