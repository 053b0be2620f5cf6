"""Who gets the numbers of a run beside `metrics.jsonl`: TensorBoard, MLflow, Weights & Biases.

`raretag train --logger mlflow --logger wandb`, `raretag.train(data, log=["mlflow"])`, or `log: [mlflow]` in a file.
A class of your own with the three methods of `core.protocols.Logger` is named as `package.module:Class`. For an object
in Python there is the `listener` of `raretag.train`.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from raretag.config.settings import flat
from raretag.core.files import write_text
from raretag.core.lazy import needed

REGISTRY = {
    "mlflow": "raretag.integrations.loggers:MLflow",
    "tensorboard": "raretag.runs.folder:TensorBoard",  # its events are files of the run
    "wandb": "raretag.integrations.loggers:WandB",
}


class MLflow:
    """A run of MLflow, wherever MLFLOW_TRACKING_URI points; resuming ours resumes it."""

    def __init__(self) -> None:
        self.mlflow = needed("mlflow", "mlflow", "--logger mlflow")

    def begin(self, name: str, config: dict[str, Any], folder: Path | None, epochs_done: int) -> None:
        kept = None if folder is None else folder / "mlflow_run"
        before = kept.read_text().strip() if kept is not None and epochs_done and kept.is_file() else None
        nested = self.mlflow.active_run() is not None
        self.run = self.mlflow.start_run(run_id=before, run_name=None if before else name, nested=nested)
        if kept is not None:
            write_text(kept, self.run.info.run_id)
        if before is None:
            settings = {key: value for key, value in flat(config).items() if value is not None}
            self.mlflow.log_params({key: str(value)[:500] for key, value in settings.items()})

    def epoch(self, number: int, numbers: dict[str, float]) -> None:
        self.mlflow.log_metrics({allowed(name): value for name, value in numbers.items()}, step=number)

    def end(self, numbers: dict[str, float]) -> None:
        self.mlflow.log_metrics({allowed(name): value for name, value in numbers.items()})
        self.mlflow.end_run()


def allowed(name: str) -> str:
    """A name of a metric as MLflow accepts it: P@1 becomes P_at_1."""
    return re.sub(r"[^\w\-. /]", "_", name.replace("@", "_at_"))


class WandB:
    """A run of Weights & Biases, as WANDB_PROJECT and WANDB_MODE=offline say; resuming ours resumes it."""

    def __init__(self) -> None:
        self.wandb = needed("wandb", "wandb", "--logger wandb")

    def begin(self, name: str, config: dict[str, Any], folder: Path | None, epochs_done: int) -> None:
        same = {}
        if folder is not None:  # the folder of a run is its identity
            where = str(folder.resolve())
            same = {"id": hashlib.sha256(where.encode()).hexdigest()[:16], "dir": where}
            same["resume"] = "allow" if epochs_done else "never"
        project = os.environ.get("WANDB_PROJECT", "raretag")
        self.run = self.wandb.init(project=project, name=name, config=config, reinit="finish_previous", **same)

    def epoch(self, number: int, numbers: dict[str, float]) -> None:
        self.run.log(numbers, step=number)

    def end(self, numbers: dict[str, float]) -> None:
        self.run.summary.update(numbers)
        self.run.finish()
