"""Two processes give what one gives: losses, weights and the method's own state, for every method."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from raretag.core import registry
from support.two_processes import TORCHRUN, run_whole

SCRIPT = Path(__file__).parents[1] / "support" / "train_every_method.py"


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """What every method ends with, in one process and in two."""
    folder = tmp_path_factory.mktemp("ends")
    run_whole([sys.executable, str(SCRIPT), str(folder / "one")])
    run_whole([*TORCHRUN, str(SCRIPT), str(folder / "two")])
    return [torch.load(folder / name, weights_only=True) for name in ("one", "two")]


@pytest.mark.parametrize("name", registry.names("methods"))
def test_two_processes_learn_what_one_learns(name, ends):
    one, two = (end[name] for end in ends)
    assert len(one["losses"]) >= 4
    assert one["losses"] == pytest.approx(two["losses"], rel=1e-9, abs=1e-12)
    for part in ("model", "average", "method"):
        assert one[part].keys() == two[part].keys()
        for key, value in one[part].items():
            tolerance = 1e-6 if value.is_floating_point() else 0  # a running sum in float32 may round differently
            torch.testing.assert_close(two[part][key], value, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", registry.names("solvers"))
def test_two_processes_solve_what_one_solves(name, ends):
    one, two = (end[name]["model"] for end in ends)
    for key, value in one.items():
        torch.testing.assert_close(two[key], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("how", ["torchrun", "devices"])
def test_the_record_does_not_depend_on_the_number_of_processes(how, tmp_path):
    settings = ["data.largest=30", "data.hide=ppl", "data.keep=0.6", "model.depth=8", "model.width=4"]
    settings += ["train.epochs=2", "train.precision=64-true"]
    command = ["train", "--method", "distribution_balanced"]
    for setting in settings:
        command += ["--set", setting]
    run_whole([sys.executable, "-m", "raretag", *command, "--out", "one"], cwd=tmp_path)
    if how == "torchrun":
        run_whole([*TORCHRUN, "-m", "raretag", *command, "--out", "two"], cwd=tmp_path)
    else:
        run_whole([sys.executable, "-m", "raretag", *command, "--devices", "2", "--out", "two"], cwd=tmp_path)
    one, two = (json.loads((tmp_path / name / "record.json").read_text())["metrics"] for name in ("one", "two"))
    assert numbers(one) == pytest.approx(numbers(two), abs=1e-5)
    assert len((tmp_path / "two" / "metrics.jsonl").read_text().splitlines()) == 2  # only the first process logs


def test_a_lost_process_is_replaced_and_changes_nothing(tmp_path):
    """torchrun begins again with the same command: `--resume auto` goes on where all of them were."""
    settings = ["data.largest=30", "model.depth=8", "model.width=4", "train.epochs=3", "train.precision=64-true"]
    settings += ["train.save_every=1", "train.batch_size=16"]
    command = ["train", "--method", "distribution_balanced", "--resume", "auto"]
    for setting in settings:
        command += ["--set", setting]
    run_whole([sys.executable, "-m", "raretag", *command, "--out", "one"], cwd=tmp_path)
    words = [*TORCHRUN, "--max-restarts", "3", "-m", "raretag", *command, "--out", "two"]
    group = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "two" / "previous.ckpt").exists() and group.poll() is None:  # a step was taken
        time.sleep(0.01)
    os.kill(process_of(group.pid, rank=1), signal.SIGKILL)
    _, errors = group.communicate(timeout=240)
    assert group.returncode == 0, errors[-3000:]
    assert errors.count("into two") >= 3, errors  # said by each of two processes at each start
    one, two = (json.loads((tmp_path / name / "record.json").read_text())["metrics"] for name in ("one", "two"))
    assert numbers(one) == pytest.approx(numbers(two), abs=1e-9)


def process_of(parent, rank):
    """The one of a torchrun that has this rank."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            its_parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if its_parent == parent and f"RANK={rank}".encode() in (path / "environ").read_bytes().split(b"\0"):
                return int(path.name)
    raise AssertionError(f"no child of {parent} has the rank {rank}")


def numbers(tree):
    if isinstance(tree, dict):
        return [number for value in tree.values() for number in numbers(value)]
    if isinstance(tree, list):
        return [number for value in tree for number in numbers(value)]
    return [tree] if isinstance(tree, (int, float)) else []
