"""The command line as a user meets it."""

import json
import subprocess
import sys

import pytest
import yaml

QUICK = ["--set", "train.epochs=2", "--set", "data.largest=60", "--set", "model.depth=8", "--set", "model.width=4"]


def raretag(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "raretag", *arguments], capture_output=True, text=True, cwd=cwd, timeout=300
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    done = raretag("train", *QUICK, "--out", "first", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_run_leaves_everything_behind(finished):
    folder, done = finished
    run = folder / "first"
    for name in ("config.yaml", "record.json", "metrics.jsonl", "last.ckpt", "model.safetensors", "card.json"):
        assert (run / name).is_file(), name
    assert list((run / "tensorboard").glob("events*"))
    record = json.loads((run / "record.json").read_text())
    assert set(record["metrics"]["final"]["mAP"]) >= {"total", "head", "medium", "tail"}
    assert 0 < record["metrics"]["final"]["mAP"]["total"] <= 1
    assert len(record["metrics"]["epochs"]) == 2
    assert record["groups"]["edges"] == [20, 100]
    assert record["method"]["denominator"] == "MeanOverEntries"
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    for word in ("mAP", "head", "medium", "tail", "F1", "exact match", "excluded"):
        assert word in done.stdout


def test_the_written_configuration_runs_again_to_the_same_record(finished):
    folder, _ = finished
    done = raretag("train", "--config", "first/config.yaml", "--out", "again", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "again/record.json").read_bytes() == (folder / "first/record.json").read_bytes()


def test_an_existing_run_is_not_touched_unless_asked(finished):
    folder, _ = finished
    before = (folder / "first/record.json").read_bytes()
    done = raretag("train", *QUICK, "--out", "first", cwd=folder)
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert "--overwrite" in done.stderr
    assert (folder / "first/record.json").read_bytes() == before


def test_nothing_happens_to_a_finished_run_that_is_resumed(finished):
    folder, first = finished
    before = {path: path.stat().st_mtime_ns for path in (folder / "first").rglob("*")}
    done = raretag("train", "--resume", "first", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "was already finished" in done.stdout
    assert done.stdout.splitlines()[:5] == first.stdout.splitlines()[:5]
    assert {path: path.stat().st_mtime_ns for path in (folder / "first").rglob("*")} == before


MISTAKES = {
    "unknown method": (["--method", "focl"], "did you mean 'focal'"),
    "unknown option": (["--method", "focal", "--set", "method.gama=2"], "did you mean 'gamma'"),
    "option of the wrong type": (["--method", "focal", "--set", "method.gamma=high"], "expected a number"),
    "unknown setting": (["--set", "train.epoch=2"], "did you mean 'epochs'"),
    "setting out of range": (["--set", "train.epochs=0"], "greater than or equal to 1"),
    "malformed setting": (["--set", "train.epochs"], "expected a.b=c"),
    "missing data file": (["--data", "no/such.csv"], "does not exist"),
    "unknown data": (["--data", "digitz"], "did you mean 'digits'"),
    "missing configuration": (["--config", "none.yaml"], "does not exist"),
    "nothing to resume": (["--resume", "nowhere"], "nothing to resume"),
    "contradiction": (["--resume", "--overwrite"], "give one of them"),
    "data without --data": ([__file__], f"--data {__file__}"),
    "a rate that diverges": ([*QUICK, "--set", "train.learning_rate=1e30", "--out", "r"], "training has diverged"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, tmp_path):
    arguments, expected = MISTAKES[mistake]
    done = raretag("train", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("raretag: ")]
    assert len(lines) == 1
    assert not list(tmp_path.rglob("record.json"))


def test_settings_of_a_resumed_run_cannot_change(finished):
    folder, _ = finished
    done = raretag("train", "--resume", "first", "--set", "train.epochs=9", cwd=folder)
    assert done.returncode == 2
    assert "train.epochs" in done.stderr


def test_only_run_folders_are_overwritten(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("years of work")
    done = raretag("train", *QUICK, "--out", "precious", "--overwrite", cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "precious/thesis.txt").read_text() == "years of work"


def test_answers_are_not_overwritten(tmp_path):
    (tmp_path / "r/suggestions").mkdir(parents=True)
    (tmp_path / "r/config.yaml").write_text("seed: 0")
    (tmp_path / "r/suggestions/answered.csv").write_text("hours of work")
    done = raretag("train", *QUICK, "--out", "r", "--overwrite", cwd=tmp_path)
    assert done.returncode == 2
    assert "may hold answers" in done.stderr
    assert (tmp_path / "r/suggestions/answered.csv").read_text() == "hours of work"


def test_plain_lists_are_bare_names(tmp_path):
    names = raretag("list", "methods", "--plain", cwd=tmp_path).stdout.splitlines()
    assert {"binary_cross_entropy", "assume_negative", "focal"} <= set(names)
    assert {"digits", "table", "voc_mlt"} <= set(raretag("list", "data", "--plain", cwd=tmp_path).stdout.split())


@pytest.mark.parametrize(
    "kind", ["methods", "solvers", "ranking", "heads", "samplers", "encoders", "models", "figures", "plans"]
)
def test_everything_that_has_a_name_is_listed(kind, tmp_path):
    bare = raretag("list", kind, "--plain", cwd=tmp_path).stdout.split()
    shown = raretag("list", kind, cwd=tmp_path).stdout
    assert bare
    assert all(name in shown for name in bare)
    assert ("committee" in bare) == (kind in ("methods", "solvers"))
    assert ("Solvers" in shown) == (kind in ("methods", "solvers"))
    assert ("Rankers" in shown) == ("centroids" in bare) == (kind in ("methods", "ranking"))


def test_a_method_of_ones_own_is_named_by_its_module(tmp_path):
    (tmp_path / "mine.py").write_text("from raretag.methods.focal import Focal\n\n\nclass Mine(Focal):\n    pass\n")
    done = raretag("train", *QUICK, "--method", "mine:Mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine:Mine" in done.stdout
    assert (tmp_path / "runs/digits-Mine-0/record.json").is_file()


def test_a_label_without_training_positives_is_named(tmp_path):
    done = raretag("train", *QUICK, "--set", "data.ratio=100000", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: no training item has" in done.stderr
    assert "nine" in done.stderr
    assert yaml.safe_load((tmp_path / "r/config.yaml").read_text())["data"]["ratio"] == 100000


@pytest.mark.parametrize("command", [[], ["inspect"], ["train"], ["predict"], ["labels", "apply"]])
def test_help_shows_no_value_beside_a_flag(command, tmp_path):
    shown = raretag(*command, "--help", cwd=tmp_path)
    assert shown.returncode == 0
    assert "--help" in shown.stdout
    assert "bool" not in shown.stdout


def test_a_misspelt_command_is_answered_with_the_nearest(tmp_path):
    done = raretag("trian", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "raretag: there is no command 'trian'; did you mean 'train'?\n"


def test_minutes_without_recommend_are_refused(tmp_path):
    done = raretag("inspect", "digits", "--minutes", "3", cwd=tmp_path)
    assert done.returncode == 2
    assert "without --recommend" in done.stderr


def test_labels_are_printed_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("text,tags\n" + "".join(f"hello {n},[/b];[red]x{n % 2}\n" for n in range(40)))
    done = raretag("inspect", "t.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"[/b]", "[red]x0", "[red]x1"} <= set(done.stdout.split())
