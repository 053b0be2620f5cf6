"""In what runs differ: the names of lines in a legend, and the places of runs on an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raretag.config.settings import flat
from raretag.core import registry as registry
from raretag.figures.parts.runs import Run

ROOMS = {"method": "methods", "data": "data", "model": "models", "branches": "models.branches",
         "head": "models.heads", "sampler": "sampling"}  # fmt: skip
WHERE = {"accelerator", "devices", "nodes", "workers", "save_every", "precision"}  # how, not what: same numbers


def settings(run: Run) -> dict[str, Any]:
    """Every setting that may matter, `a.b` by name; the seed is not one of them."""
    found = flat(run.config)
    return {
        key: value
        for key, value in found.items()
        if key not in ("seed", *(f"train.{name}" for name in WHERE), "data.root")
    }


def setting(run: Run, key: str) -> Any:
    """A setting, or the default of the module's own option where the user did not say."""
    told = settings(run)
    if key in told:
        return told[key]
    if f"{key}.name" in told:  # `base` as a word in one run and with options in another
        return told[f"{key}.name"]
    section, _, option = key.partition(".")
    if section not in ROOMS or told.get(f"{section}.name") in (None, "auto", "none"):
        return None
    known = registry.parameters(registry.find(ROOMS[section], told[f"{section}.name"]))
    return known[option].default if option in known else None


def default(run: Run, key: str) -> Any:
    """What a setting would be, had the user not said it."""
    section, _, option = key.partition(".")
    told = run.config.get(section)
    if not isinstance(told, dict) or option == "name":
        return setting(run, key)
    bare = {**run.config, section: {name: value for name, value in told.items() if name != option}}
    return setting(Run(run.folder, {**run.record, "config": bare}, run.positives), key)


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs differ."""
    keys = dict.fromkeys(key for run in runs for key in settings(run))
    return [key for key in keys if any(setting(run, key) != setting(runs[0], key) for run in runs[1:])]


def titles(runs: Sequence[Run]) -> list[str]:
    """A short name for each run: its method, and what tells it from the other runs of that method."""
    names = []
    for run in runs:
        alike = [other for other in runs if other.method == run.method]
        unusual = [key for key in differing(alike) if setting(run, key) != usual(alike, key)]
        words = [f"{key.removesuffix('.name').split('.')[-1]}={spelt(setting(run, key))}" for key in unusual]
        names.append(", ".join([run.method.replace("_", " "), *words]))
    repeated = {name for name in names if names.count(name) > 1}
    return [f"{name}, {run.folder.name}" if name in repeated else name for name, run in zip(names, runs, strict=True)]


def usual(runs: Sequence[Run], key: str) -> Any:
    """What needs no mention: the default, if a run has it, else what the first run has."""
    usual = default(runs[0], key)
    return usual if any(setting(run, key) == usual for run in runs) else setting(runs[0], key)


def spelt(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
