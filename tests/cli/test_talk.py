"""What commands print: little with --quiet, a line per epoch in a log file, an example in every help."""

import subprocess
import sys

import pytest
from typer.main import get_command

from raretag.cli.help import EXAMPLES, OPTION_PANELS
from raretag.cli.main import COMMANDS, LABELS, app
from raretag.config.settings import Config


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


@pytest.mark.parametrize("name", [*COMMANDS, *LABELS])
def test_every_option_has_a_sentence_and_panels_name_options_that_exist(name):
    group = get_command(app).get_command(None, "labels") if name in LABELS else get_command(app)
    options = group.get_command(None, name).params
    for one in options:
        assert one.help, f"{name} {one.name}"
        assert one.help.endswith((".", ").")), one.help
    sorted_in = {option for names in OPTION_PANELS.get(name, {}).values() for option in names}
    assert sorted_in <= {one.name for one in options}
    assert len(options) < 10 or sorted_in, f"{name} has {len(options)} options: sort them into panels"


def test_every_setting_has_a_sentence():
    for name, field in Config.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {"": field})
        for key, option in inner.items():
            assert option.description, f"{name}.{key}"


def test_commands_complete_in_the_shell():
    env = {"_RARETAG_COMPLETE": "complete_bash", "COMP_WORDS": "raretag tr", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'raretag'; from raretag.cli.main import main; main()"],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["train"]


def test_the_reason_for_the_default_fits_the_effort_that_was_asked_for():
    from raretag.engine.auto import SOLVER, reason_for

    said = {
        effort: reason_for(SOLVER, Config(effort=effort), False, 2, "size") for effort in ("quick", "default", "best")
    }
    assert "a forest" not in said["quick"]
    assert "--effort quick is faster" not in said["quick"]
    assert "--effort quick is faster; --effort best chooses by ten folds instead of five" in said["default"]
    assert "--effort best chooses" not in said["best"]


def test_a_sentence_names_only_as_many_columns_as_it_can():
    from raretag.core.registry import nearest

    assert nearest("text", ["id", "tags"]) == "known: id, tags"
    assert nearest("text", [f"column{number:03}" for number in range(103)]).endswith("column059 and 43 more")
