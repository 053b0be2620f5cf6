"""What is not installed is said in one line, and what does not need it works all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCK = "import sys; sys.modules.update(dict.fromkeys({names!r}))\n"


def run(names, code, folder):
    whole = BLOCK.format(names=names) + code
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        (
            "matplotlib",
            "from raretag.cli.main import main; sys.argv = ['raretag', 'figure', 'plm-4']; main()",
            "figures",
        ),
        ("plotly", "from raretag.report.runs import plotly_source; plotly_source()", "report"),
        ("tensorboard", "import raretag; raretag.train('digits', log='tensorboard', out='run')", "tensorboard"),
        ("wandb", "import raretag; raretag.train('digits', log='wandb', out='run')", "wandb"),
        ("transformers", "from raretag.huggingface import Trainer; Trainer()", "huggingface"),
        ("lightning", "from raretag.lightning import Module; Module(None, 'focal', None)", "lightning"),
    ],
)
def test_the_line_names_what_to_install(tmp_path, package, code, extra):
    caught = "except UserError as error:\n    print(error)\n    sys.exit(2)"
    done = run([package], f"from raretag import UserError\ntry:\n    {code}\n{caught}", tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = [one for one in (done.stdout + done.stderr).splitlines() if "pip install" in one]
    assert f"pip install 'raretag[{extra}]'" in line
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_needs_none_of_them(tmp_path):
    code = (
        "import raretag\n"
        "raretag.train('digits', method='logistic_regression', out='run', listener=raretag.Listener())\n"
        "print(raretag.load('run').predict('digits').probabilities.shape)\n"
    )
    names = ["matplotlib", "tensorboard", "plotly", "mlflow", "wandb", "transformers", "lightning", "ray", "optuna"]
    done = run(names, code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert (tmp_path / "run" / "metrics.jsonl").is_file()
