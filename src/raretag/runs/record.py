"""What a run leaves behind: `record.json`. It holds no clock and no host, so the same run gives the same record."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import raretag
from raretag.core.errors import UserError
from raretag.core.files import without_nan, write_json

if TYPE_CHECKING:
    from raretag.config.settings import Config
    from raretag.data.dataset import DataSet

FILE = "record.json"
OUT_OF_FOLD = "out of fold: each item scored by a model that was not fitted to it"
VERSION = 2  # 1: records of the first versions, which did not say


class _Open(BaseModel):
    """Keeps what it does not know: a record of a later version, or a metric of one's own."""

    model_config = ConfigDict(extra="allow")


class Means(_Open):
    """A metric, averaged over all labels and over those of each group; None where nothing could be measured."""

    total: float | None = None
    mean_of_groups: float | None = None
    excluded: dict[str, int] = Field(default_factory=dict)  # labels that could not be measured, per group

    def of(self, group: str) -> float | None:
        """The mean of "total", "mean_of_groups" or a group such as "tail"."""
        known = {**self.__dict__, **(self.model_extra or {})}
        value = known.get(group)
        return value if isinstance(value, (int, float)) else None


class Metrics(_Open):
    """Every number of a model on one set of items."""

    mAP: Means = Field(default_factory=Means)  # noqa: N815
    F1: Means = Field(default_factory=Means)  # at a probability of 0.5
    F1_tuned: Means | None = None  # at the thresholds of the run
    micro_F1_tuned: float | None = None  # noqa: N815
    measured_on: str = "test"  # or "validation", or "out of fold": the training items by models that never saw them
    exact_match: float | None = None
    excluded_classes: list[int] = Field(default_factory=list)  # that the items cannot measure
    precision: Means | None = None
    recall: Means | None = None
    micro_F1: float | None = None  # noqa: N815
    ECE: dict[str, float | None] | None = None  # calibration error before and after calibration
    hidden_recall: float | None = None  # share of the labels hidden on purpose that the model finds
    partial_truth: dict[str, Any] | None = None  # bounds where test labels are unknown
    per_class: dict[str, list[Any]] = Field(default_factory=dict)
    least_frequent: dict[str, dict[str, Any]] = Field(default_factory=dict)
    items: int | None = None
    top: dict[str, Any] | None = None  # P@k, PSP@k, recall@k of a ranking, where labels are very many
    decisions: dict[str, float | None] | None = None  # precision, recall and F1 of all decisions of such a model


class Epoch(_Open):
    """A row of the history."""

    epoch: int
    step: int
    loss: float | None = None  # None for a solver, which has no steps
    learning_rate: float | None = None
    validation: Metrics = Field(default_factory=Metrics)
    vital_signs: dict[str, float | None] = Field(default_factory=dict)


class Measured(_Open):
    """Numbers over the epochs and at the end."""

    epochs: list[Epoch] = Field(default_factory=list)
    validation_from: str = "validation items"  # or "out of fold", or "training items" where nothing was held out
    final: Metrics = Field(default_factory=Metrics)


class DataFacts(_Open):
    name: str
    notes: dict[str, Any] = Field(default_factory=dict)
    labels: list[str] = Field(default_factory=list)
    fingerprint: dict[str, str] = Field(default_factory=dict)  # of the labels of each part
    content: dict[str, str | None] = Field(default_factory=dict)  # of all items, see data/fingerprint.py
    ids: bool = False  # then the fingerprint tells items apart, not only labels
    items: dict[str, int] = Field(default_factory=dict)


class Groups(_Open):
    """Label numbers of head, medium and tail are further fields."""

    edges: list[int] = Field(default_factory=list)
    counted_on: str = ""
    sizes: dict[str, int] = Field(default_factory=dict)  # where labels are too many to be listed

    @property
    def members(self) -> dict[str, list[int]]:
        return {name: value for name, value in (self.model_extra or {}).items() if isinstance(value, list)}


class MethodFacts(_Open):
    name: str
    solves: bool = False
    ranks: bool = False  # labels are very many: see metrics.final.top
    slots: dict[str, str] = Field(default_factory=dict)  # of the one equation
    denominator: str | None = None
    learned: dict[str, Any] = Field(default_factory=dict)


class Record(_Open):
    """The whole story of a run in one file.

    >>> facts = {"data": {"name": "mine"}, "groups": {"tail": [0]}, "method": {"name": "focal"}}
    >>> record = Record.from_json({"config": {}, "metrics": {"final": {"mAP": {"total": 0.5, "tail": None}}}, **facts})
    >>> record.metrics.final.mAP.total, record.groups.members, record.version
    (0.5, {'tail': [0]}, 1)
    """

    version: int = 1
    config: dict[str, Any]
    environment: dict[str, Any] = Field(default_factory=dict)
    seeds: dict[str, int | None] = Field(default_factory=dict)
    data: DataFacts
    groups: Groups
    method: MethodFacts
    metrics: Measured
    thresholds: list[float] | None = None
    calibration: dict[str, list[float]] | None = None
    tuned: dict[str, Any] | None = None
    fitted_on: dict[str, dict[str, Any]] = Field(default_factory=dict)  # items of model, thresholds and metrics

    @classmethod
    def from_json(cls, tree: Any) -> Record:
        """From what a JSON file holds; records of all earlier versions are read."""
        return cls.model_validate(tree)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists; what was never filled in is left out."""
        tree: dict[str, Any] = without_nan(self.model_dump(mode="json", exclude_unset=True))
        return tree

    def write(self, folder: Path) -> None:
        write_json(folder / FILE, self.to_json())


def read_record(folder: Path) -> Record:
    """The record of a finished run."""
    path = folder / FILE
    try:
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError:
        raise UserError(f"'{path}' is not the record of a run") from None
    except (ValueError, OSError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None


def changes_to_labels(data: Mapping[str, Any]) -> str:
    """What was done to the training labels on purpose, in words; `data` is that section of the configuration.

    >>> changes_to_labels({"longtail": "none", "hide": "ppl", "keep": 0.4})
    ' (training labels hidden: PPL, 40 % kept)'
    """
    done = [] if data["longtail"] == "none" else [f"long tail: {data['longtail']}"]
    if data["hide"] not in ("none", "fal"):  # fal: the name of none in older records
        kept = f", {100 * data['keep']:g} % kept" if data["keep"] else ""
        done.append(f"training labels hidden: {data['hide'].upper()}{kept}")
    return f" ({'; '.join(done)})" if done else ""


def beginning(config: Config, data: DataSet, threads: int, **facts: Any) -> dict[str, Any]:
    """What every record begins with; `facts` are further ones of the data."""
    return {
        "version": VERSION,
        "config": config.model_dump(mode="json"),
        "environment": environment(threads),
        "seeds": {"run": config.seed, "data": data.notes.get("seed")},
        "data": {
            "name": data.name,
            "notes": data.notes,
            **facts,
            "fingerprint": {name: items.labels.fingerprint() for name, items in data.parts.items()},
            "ids": data.test.labels.given_ids is not None,
            "items": {name: len(items) for name, items in data.parts.items()},
        },
    }


def environment(threads: int) -> dict[str, Any]:
    packages = ("torch", "numpy", "scipy", "scikit-learn", "lightning-fabric")
    return {
        "raretag": raretag.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": threads,
        **{package: _version(package) for package in packages},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
