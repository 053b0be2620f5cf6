"""What commands print: little with --quiet, a line per epoch in a log file, an example in every help."""

import subprocess
import sys

import pytest

from raretag.cli.main import COMMANDS, EXAMPLES, LABELS


def raretag(*words, cwd=None):
    return subprocess.run([sys.executable, "-m", "raretag", *words], capture_output=True, text=True, cwd=cwd)


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """The same small training, as it talks in a log file and with --quiet before and after the command."""
    folder = tmp_path_factory.mktemp("talk")
    small = ["train", "--set", "model.name=mlp", "--set", "data.largest=30", "--set", "train.epochs=2"]
    return [
        raretag(*small, "--out", "plain", cwd=folder),
        raretag(*small, "--out", "after", "--quiet", cwd=folder),
        raretag("--quiet", *small, "--out", "before", cwd=folder),
    ]


def test_a_log_file_has_a_line_for_every_epoch(trainings):
    lines = trainings[0].stderr.splitlines()
    assert [sum(f"epoch {epoch}/2" in line and "loss" in line for line in lines) > 0 for epoch in (1, 2)] == [
        True,
        True,
    ]


@pytest.mark.parametrize("which", [1, 2])
def test_quiet_leaves_the_results(which, trainings):
    quiet = trainings[which]
    assert quiet.returncode == 0
    assert quiet.stderr == ""
    assert "mAP" in quiet.stdout


def test_quiet_leaves_errors(tmp_path):
    failed = raretag("train", "--quiet", "--data", "nowhere.csv", cwd=tmp_path)
    assert failed.returncode == 2
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [*COMMANDS, *LABELS])
def test_every_command_has_an_example(name):
    assert EXAMPLES[name].split()[:2] == (["raretag", name] if name in COMMANDS else ["raretag", "labels"])


def test_commands_complete_in_the_shell():
    env = {"_RARETAG_COMPLETE": "complete_bash", "COMP_WORDS": "raretag tr", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'raretag'; from raretag.cli.main import main; main()"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["train"]
