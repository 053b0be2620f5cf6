"""A plan: data x setting x method x seed, written as YAML in `bench/plans`. Imports no torch."""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from raretag.core.errors import UserError
from raretag.core.registry import nearest

if TYPE_CHECKING:
    from typing_extensions import Self

FOLDER = Path(__file__).parent / "plans"


class Row(BaseModel):
    """One name on an axis of the grid, and the settings it stands for."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    label: str
    set: dict[str, Any] = {}
    budgets: dict[str, dict[str, Any]] = {}  # what it stands for under one budget only
    by_data: dict[str, dict[str, Any]] = {}  # for a method: what it stands for on one data set only
    family: str = ""  # for a method of a search: it competes with those of the same family
    trained_as: str | None = None  # for a method: another one that trains the same and is only read out otherwise
    published: dict[str, float] = {}  # for a method: "data, setting, metric" -> the paper's own number


class Plan(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    source: str = ""  # the paper and table that it repeats
    data: list[Row]
    settings: list[Row] = [Row(label="as it is")]
    methods: list[Row]
    seeds: list[int]
    metrics: dict[str, str]  # column -> where in `metrics.final` of a record
    costs: dict[str, str] = {}  # column -> where in `cost` of a record; every run then has a process of its own
    choose: str = ""  # for a search: the column by which one method of each family is chosen
    opponents: list[str] = []  # methods that the others are measured against (bench/opponents.py)
    clocks: list[str] = []  # methods whose costs the others' are divided by; else the first one
    pools: dict[str, list[str]] = {}  # title -> data sets whose rare labels are compared together
    budgets: dict[str, dict[str, Any]]  # small, paper: settings that scale epochs and model

    @model_validator(mode="after")
    def choose_is_a_column(self) -> Self:
        if self.choose and self.choose not in self.metrics:
            raise ValueError(f"choose is '{self.choose}', expected one of its metrics: {', '.join(self.metrics)}")
        return self

    @model_validator(mode="after")
    def by_data_names_data(self) -> Self:
        known = {row.label for row in self.data}
        if unknown := {label for method in self.methods for label in method.by_data} - known:
            raise ValueError(f"by_data has {min(unknown)!r}, expected labels of data: {', '.join(sorted(known))}")
        return self

    @model_validator(mode="after")
    def opponents_are_methods(self) -> Self:
        for name, labels in (("opponents", self.opponents), ("clocks", self.clocks)):
            if unknown := set(labels) - {method.label for method in self.methods}:
                raise ValueError(f"{name} has {min(unknown)!r}, expected labels of methods")
        return self


Key: TypeAlias = tuple[str, str, int]  # data, setting, seed


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    data: Row
    setting: Row
    method: Row
    seed: int
    changes: tuple[str, ...]

    @property
    def key(self) -> Key:
        """What cells of different methods have in common when they compare."""
        return self.data.label, self.setting.label, self.seed

    @property
    def name(self) -> str:
        words = "-".join(row.label for row in (self.data, self.setting, self.method))
        plain = "".join(letter if letter.isalnum() else "-" for letter in words.lower())
        digest = hashlib.sha256("\n".join(self.changes).encode()).hexdigest()[:8]
        return f"{plain}-{self.seed}-{digest}"  # a changed setting is another run


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Plan:
    """A plan of the package by its name, or a YAML file of one's own.

    >>> plan = load("quick")
    >>> len(plan.methods), len(cells(plan, "small", ["seed 0"]))
    (6, 6)
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"there is no plan '{name}'; {nearest(name, names())}")
    try:
        return Plan.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"the plan '{path}' is not understood: {reason}") from None


def cells(plan: Plan, budget: str, only: Collection[str] = ()) -> list[Cell]:
    """All runs, seed by seed, so that a grid that is stopped early has whole seeds.

    `only`: labels ("VOC-MLT", "DB-Focal", "seed 0"). An axis of which some are named keeps those, others stay whole.
    """
    if budget not in plan.budgets:
        raise UserError(f"this plan has no budget '{budget}'; {nearest(budget, plan.budgets)}")
    found = []
    for seed, data, setting, method in itertools.product(plan.seeds, plan.data, plan.settings, plan.methods):
        own = [row.set | row.budgets.get(budget, {}) for row in (data, setting, method)]
        merged = {**plan.budgets[budget], **own[0], **own[1], **own[2], **method.by_data.get(data.label, {})}
        changes = tuple(
            f"{key}={yaml.safe_dump(value, default_flow_style=True, width=sys.maxsize).splitlines()[0]}"
            for key, value in merged.items()
        )
        found.append(Cell(data, setting, method, seed, changes))
    return [cell for cell in found if wanted(cell, plan, only)] if only else found


def wanted(cell: Cell, plan: Plan, only: Collection[str]) -> bool:
    rows = (plan.data, plan.settings, plan.methods)
    axes = [*([row.label for row in axis] for axis in rows), [f"seed {seed}" for seed in plan.seeds]]
    for word in only:
        if not any(word in axis for axis in axes):
            raise UserError(f"this plan has no '{word}'; {nearest(word, itertools.chain(*axes))}")
    mine = (cell.data.label, cell.setting.label, cell.method.label, f"seed {cell.seed}")
    return all(label in only or not set(only) & set(axis) for label, axis in zip(mine, axes, strict=True))
