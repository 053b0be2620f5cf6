"""What a run leaves behind. The record holds no clock and no host, so the same run gives the same record."""

from __future__ import annotations

import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import raretag
from raretag.core.method import Method
from raretag.data.dataset import DataSet
from raretag.engine.config import Config


def environment() -> dict[str, Any]:
    packages = ("torch", "numpy", "scipy", "scikit-learn", "lightning-fabric")
    return {
        "raretag": raretag.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        **{package: _version(package) for package in packages},
    }


def record_of(
    config: Config, data: DataSet, method: Method, groups: dict[str, torch.Tensor], history: list[dict[str, Any]]
) -> dict[str, Any]:
    """Everything but the final numbers."""
    slots = method.objective.filled()
    return {
        "config": config.model_dump(mode="json"),
        "environment": environment(),
        "seeds": {"run": config.seed, "data": data.notes.get("seed")},
        "data": {
            "name": data.name,
            "notes": data.notes,
            "labels": list(data.train.labels.names),
            "fingerprint": {
                split: getattr(data, split).labels.fingerprint() for split in ("train", "validation", "test")
            },
            "ids": data.test.labels.given_ids is not None,  # then the fingerprint tells items apart, not only labels
            "items": {split: len(getattr(data, split)) for split in ("train", "validation", "test")},
        },
        "groups": {
            "edges": list(config.group_edges),
            "counted_on": "training positives, before any were hidden",
            **{name: members.tolist() for name, members in groups.items()},
        },
        "method": {
            "name": config.method.name,
            "solves": method.solves,
            "slots": slots,
            "denominator": slots["reduce"],
            "learned": method.learned(),
        },
        "metrics": {  # numbers of single labels are in metrics.jsonl
            "epochs": [{key: value for key, value in row.items() if key != "by_label"} for row in history]
        },
    }


def write_json(path: Path, content: Any) -> None:
    """Complete or not at all; NaN, which JSON does not have, becomes null."""
    write_text(path, json.dumps(without_nan(content), indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def without_nan(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [without_nan(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
