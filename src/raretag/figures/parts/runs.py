"""Finished runs as figures need them, and the settings in which they differ: names in a legend. Needs no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretag.config.settings import Config, flat
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.figures.parts.canvas import GROUPS

ROOMS = {"method": "methods", "data": "data", "model": "models", "branches": "models.branches",
         "head": "models.heads", "sampler": "sampling"}  # fmt: skip
WHERE = {
    "accelerator",
    "devices",
    "nodes",
    "workers",
    "save_every",
    "precision",
}  # they change no number


@dataclass(frozen=True)
class Run:
    folder: Path
    record: dict[str, Any]
    positives: list[int]  # of each label in training, as the method was given them

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.record["config"])

    @property
    def method(self) -> str:
        return str(self.config["method"]["name"])

    @property
    def data(self) -> str:
        return str(self.record["data"]["name"])

    @property
    def labels(self) -> list[str]:
        return list(self.record["data"]["labels"])

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """One row for each; the log has also the numbers of single labels, which a record leaves out."""
        log = self.folder / "metrics.jsonl"
        if not log.is_file():
            return list(self.record["metrics"]["epochs"])
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]

    @property
    def final(self) -> dict[str, Any]:
        return dict(self.record["metrics"]["final"])

    @property
    def order(self) -> list[int]:
        """Labels from head to tail, in each group from the most frequent to the rarest."""
        group = {label: place for place, name in enumerate(GROUPS) for label in self.record["groups"][name]}
        return sorted(range(len(self.labels)), key=lambda label: (group[label], -self.positives[label]))

    @property
    def group_sizes(self) -> dict[str, int]:
        return {name: len(self.record["groups"][name]) for name in GROUPS}

    def per_class(self, metric: str) -> list[float]:
        """On the test items; NaN where a label has no positive there."""
        return [math.nan if value is None else value for value in self.final["per_class"][metric]]


def read_run(word: str | Path) -> Run:
    folder = Path(word)
    if not folder.exists():
        raise UserError(f"the run folder '{folder}' does not exist")
    if not (folder / "config.yaml").is_file():
        raise UserError(f"'{folder}' is not a run folder (no config.yaml in it)")
    if not (folder / "record.json").is_file():
        raise UserError(
            f"the run '{folder}' has not finished (no record.json in it); `raretag train --resume {folder}`"
        )
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        if record["method"].get("ranks"):
            raise UserError(f"'{folder}' ranks very many labels; figures are of runs that score every label")
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
        return Run(folder, record, card["training_positives"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"the record of the run '{folder}' cannot be read: {error}") from None


def read_runs(words: Sequence[str | Path], at_least: int = 1, at_most: int | None = None, why: str = "") -> list[Run]:
    """`why` ends the sentence for a user who gave too few or too many."""
    if len(words) < at_least or (at_most is not None and len(words) > at_most):
        wanted = f"{at_least} or more runs" if at_most is None else f"{at_least} to {at_most} runs"
        wanted = f"{at_least} run{'s' if at_least > 1 else ''}" if at_most == at_least else wanted
        raise UserError(f"this figure needs {wanted}, got {len(words)}" + (f": {why}" if why else ""))
    return [read_run(word) for word in words]


def same_labels(runs: Sequence[Run]) -> None:
    for run in runs[1:]:
        if run.labels != runs[0].labels:
            raise UserError(
                f"'{runs[0].folder}' ({runs[0].data}) and '{run.folder}' ({run.data}) have different labels; "
                "expected runs on one data set"
            )


def of_each_epoch(run: Run, *path: str, wanted: str) -> list[Any]:
    """What every epoch's row has under a path of keys."""
    values = []
    for row in run.epochs:
        value: Any = row
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            raise UserError(f"the run '{run.folder}' ({run.method}) has no {path[-1]} in its epochs; {wanted}")
        values.append(value)
    return values


# In what runs differ. -------------------------------------------------------------------------------------------------


def settings(run: Run) -> dict[str, Any]:
    """Every setting that may matter, `a.b` by name; the seed is not one of them.

    A run of an older version has the default of what was added later.
    """
    found = flat(Config().model_dump(mode="json")) | flat(run.config)
    return {
        key: value
        for key, value in found.items()
        if key not in ("seed", *(f"train.{name}" for name in WHERE), "data.root")
    }


def setting(run: Run, key: str) -> Any:
    """A setting, or the default of the module's own option where the user did not set it."""
    given = settings(run)
    if key in given:
        return given[key]
    if f"{key}.name" in given:  # `base` as a word in one run and with options in another
        return given[f"{key}.name"]
    section, _, option = key.partition(".")
    if section not in ROOMS or given.get(f"{section}.name") in (None, "auto", "none"):
        return None
    known = registry.parameters(registry.find(ROOMS[section], given[f"{section}.name"]))
    return known[option].default if option in known else None


def default(run: Run, key: str) -> Any:
    """What a setting would be if the user had not set it."""
    section, _, option = key.partition(".")
    given = run.config.get(section)
    if not isinstance(given, dict) or option == "name":
        return setting(run, key)
    bare = {**run.config, section: {name: value for name, value in given.items() if name != option}}
    return setting(Run(run.folder, {**run.record, "config": bare}, run.positives), key)


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs differ."""
    keys = dict.fromkeys(key for run in runs for key in settings(run))
    return [key for key in keys if any(setting(run, key) != setting(runs[0], key) for run in runs[1:])]


def titles(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its method, and the settings that distinguish it from other runs of that method."""
    names = []
    for run in runs:
        alike = [other for other in runs if other.method == run.method]
        unusual = [key for key in differing(alike) if setting(run, key) != usual(alike, key)]
        words = [f"{key.removesuffix('.name').split('.')[-1]}={written(setting(run, key))}" for key in unusual]
        names.append(", ".join([run.method.replace("_", " "), *words]))
    repeated = {name for name in names if names.count(name) > 1}
    return [f"{name}, {run.folder.name}" if name in repeated else name for name, run in zip(names, runs, strict=True)]


def usual(runs: Sequence[Run], key: str) -> Any:
    """What needs no mention: the default, if a run has it, else what the first run has."""
    usual = default(runs[0], key)
    return usual if any(setting(run, key) == usual for run in runs) else setting(runs[0], key)


def written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
