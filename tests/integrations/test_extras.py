"""What is not installed is said in one line, and what does not need it works all the same."""

from __future__ import annotations

import subprocess
import sys

BLOCK = "import sys; sys.modules.update(dict.fromkeys({names!r}))\n"


def run(names, code, folder):
    whole = BLOCK.format(names=names) + code
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, cwd=folder)


ABSENT = [  # package, extra, what needs it
    ("matplotlib", "figures", "run('figure', 'plm-4')"),
    ("plotly", "report", "from raretag.report.runs import plotly_source; plotly_source()"),
    ("tensorboard", "tensorboard", "raretag.train('digits', log='tensorboard', out='run')"),
    ("wandb", "wandb", "raretag.train('digits', log='wandb', out='run')"),
    ("mlflow", "mlflow", "raretag.train('digits', log='mlflow', out='run')"),
    ("transformers", "huggingface", "from raretag.huggingface import Trainer; Trainer()"),
    ("lightning", "lightning", "from raretag.lightning import Module; Module(None, 'focal', None)"),
    ("ray", "ray", "run('train', '--data', 'digits', '--on', 'ray', '--out', 'run')"),
    ("optuna", "sweep", "run('sweep', 'sweep.yaml', '--out', 'run')"),
    ("huggingface_hub", "hub", "raretag.load('hf://nobody/nothing')"),
    ("starlette", "review", "run('serve', 'run')"),
]
TRY = """
import raretag
from raretag.cli.main import app
from typer.testing import CliRunner

def run(*words):
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None:
        raise done.exception

for package, extra, code in {cases!r}:
    try:
        exec(code)
    except raretag.UserError as error:
        print(f"{{package}}: {{error}}")
    else:
        print(f"{{package}}: is not needed")
"""


def test_the_line_names_what_to_install(tmp_path):
    (tmp_path / "sweep.yaml").write_text("data: {name: digits}\nsearch: {method.gamma: [0.5, 2.0]}\n")
    done = run([package for package, _, _ in ABSENT], TRY.format(cases=ABSENT), tmp_path)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "pip install" in line or "is not needed" in line]
    for line, (package, extra, _) in zip(said, ABSENT, strict=True):
        assert line.startswith(f"{package}: "), line
        assert f"pip install 'raretag[{extra}]'" in line
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
