"""The walk of docs/tutorial.md, command by command."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    pytest.importorskip("plotly")
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("walk")
    said = {}
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.strip().splitlines():
            command = [sys.executable, "-m", *shlex.split(line)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=400)
            assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
            said[line.split(" --")[0]] = done.stdout + done.stderr
    return folder, said


def test_the_walk_ends_with_a_model_in_use(walked):
    folder, _ = walked
    assert (folder / "first" / "report.html").stat().st_size > 10_000
    assert (folder / "compared.html").is_file()
    assert len((folder / "predictions.csv").read_text().splitlines()) > 1000
    assert (folder / "second" / "model.onnx").is_file()


def test_answered_suggestions_make_the_model_better(walked):
    folder, _ = walked
    first, second = (json.loads((folder / run / "record.json").read_text()) for run in ("first", "second"))
    gain = second["metrics"]["final"]["mAP"]["total"] - first["metrics"]["final"]["mAP"]["total"]
    assert gain > 0.0


def test_a_method_is_named_with_its_command(walked):
    _, said = walked
    assert any("raretag train" in text for line, text in said.items() if line.startswith("raretag inspect"))
