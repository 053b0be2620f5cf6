"""A run that was killed ends like one that was not, to the bit."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from raretag.config.settings import Train
from raretag.core import chance
from raretag.core.listener import SILENT
from raretag.core.method import Method, Stage
from raretag.engine import checkpoint as state
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
    written, before = 0, None
    while written < steps and process.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # also in the moment between two renames
            now = (run / state.LAST).stat().st_mtime_ns
            written += now != before
            before = now
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()


def same(one, other):
    assert (one / "record.json").read_bytes() == (other / "record.json").read_bytes()
    for name in ("model.safetensors", "logits.safetensors"):
        left, right = load_file(one / name), load_file(other / name)
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)
    left, right = (torch.load(run / state.LAST, weights_only=True)["training"]["method"] for run in (one, other))
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
