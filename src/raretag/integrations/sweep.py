"""A search over settings: Optuna on one machine, Ray Tune on many. Poor trials are stopped early by validation mAP.

A sweep is a configuration with a section `search`, from a setting to what it may be:

    method: {name: focal}
    train: {epochs: 9}
    search:
      method.gamma: [0.5, 1.0, 2.0]                                  one of these
      train.learning_rate: {low: 0.0001, high: 0.1, log: true}       a number between
      train.batch_size: {low: 16, high: 64}                          a whole number, as both ends are

Trials are halved as ASHA does: of those that reach 1, 3, 9, ... epochs a third goes on. Each finished or stopped trial
is a line of `trials.jsonl` and a run folder; a sweep that was interrupted goes on with the trials it lacks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from raretag.config.settings import Config, checked, parsed, put, read
from raretag.core.errors import UserError
from raretag.core.files import write_text
from raretag.core.lazy import needed
from raretag.core.listener import Listener, Step

FILE, BEST = "trials.jsonl", "best.yaml"
REDUCTION = 3  # of the trials that reach a rung, one in so many goes on


@dataclass(frozen=True)
class Range:
    """Numbers between two ends; whole ones, if both ends are whole."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


Space = dict[str, "Range | list[Any]"]


@dataclass(frozen=True)
class Trial:
    """What was tried, and what came of it."""

    number: int
    settings: dict[str, Any]
    mAP: float | None  # noqa: N815 - of the validation items, at the last epoch
    epochs: int
    state: str  # finished, stopped (others were better), or failed
    reason: str = ""


def read_sweep(file: Path, changes: Mapping[str, Any]) -> tuple[dict[str, Any], Space]:
    """The configuration of a sweep and its section `search`, both checked."""
    tree = read(file)
    found = tree.pop("search", None)
    if not isinstance(found, dict) or not found:
        raise UserError(f"'{file}' has no section search; expected for example search: {{method.gamma: [1.0, 2.0]}}")
    for key, value in changes.items():
        put(tree, key, value)
    space = {str(key): choices_of(str(key), value) for key, value in found.items()}
    configured(tree, {key: one[0] if isinstance(one, list) else one.low for key, one in space.items()})
    return tree, space


def choices_of(key: str, value: Any) -> Range | list[Any]:
    """
    >>> choices_of("train.learning_rate", {"low": "1e-4", "high": 0.1, "log": True})
    Range(low=0.0001, high=0.1, log=True)
    """
    if isinstance(value, list) and value:
        return value
    if isinstance(value, dict) and {"low", "high"} <= set(value) <= {"low", "high", "log"}:
        low, high = (parsed(end) if isinstance(end, str) else end for end in (value["low"], value["high"]))
        if all(isinstance(end, (int, float)) for end in (low, high)) and low < high:
            if value.get("log") and low <= 0:
                raise UserError(f"search.{key} begins at {low}; expected a number above 0 where log is true")
            return Range(low, high, bool(value.get("log")))
    raise UserError(f"search.{key} is {value!r}; expected a list of values, or {{low: ..., high: ..., log: true}}")


def configured(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> Config:
    """The configuration with the settings of a trial in it."""
    whole = json.loads(json.dumps(tree))
    for key, value in settings.items():
        put(whole, key, value)
    return checked(whole)


class Reporter(Listener):
    """Passes validation mAP on after each epoch; what it is passed to may raise to stop the trial."""

    def __init__(self, report: Callable[[int, float], None]) -> None:
        self.report, self.epochs, self.last = report, 0, math.nan

    def epoch(self, step: Step, row: dict[str, Any]) -> None:
        value = row["validation"]["mAP"]["total"]
        self.epochs, self.last = step.epoch + 1, math.nan if value is None else float(value)
        self.report(self.epochs, self.last)


def run_trial(config: Config, folder: Path, report: Callable[[int, float], None]) -> Reporter:
    """Train once; gives the last validation mAP."""
    from raretag.engine.run import run

    reporter = Reporter(report)
    found = run(config, folder, overwrite=True, listener=reporter)
    if not reporter.epochs:  # a solver, which has no epochs
        value = found.epochs[-1]["validation"]["mAP"]["total"]
        reporter.epochs, reporter.last = 1, math.nan if value is None else value
    return reporter


def sweep_with_optuna(
    tree: Mapping[str, Any], space: Space, folder: Path, trials: int, done: Callable[[Trial], None]
) -> list[Trial]:
    """Trial after trial on this machine; those in the folder's list are not run again but teach the search."""
    optuna = needed("optuna", "sweep", "raretag sweep")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    before = read_trials(folder)
    sampler = optuna.samplers.TPESampler(seed=configured(tree, {}).seed + len(before))
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    spread = {key: distribution_of(optuna.distributions, one) for key, one in space.items()}
    for old in before:
        if old.mAP is not None and old.settings.keys() == spread.keys():
            study.add_trial(optuna.trial.create_trial(params=old.settings, distributions=spread, value=old.mAP))
    found = list(before)
    for number in range(len(before), trials):
        trial = study.ask(spread)
        found.append(one_trial(optuna, study, trial, tree, folder / f"trial-{number:03d}", number))
        write_trials(folder, found, tree)
        done(found[-1])
    return found


def one_trial(optuna: Any, study: Any, trial: Any, tree: Mapping[str, Any], folder: Path, number: int) -> Trial:
    seen = [0, math.nan]

    def report(epoch: int, value: float) -> None:
        seen[:] = [epoch, value]
        if not math.isnan(value):
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

    try:
        reporter = run_trial(configured(tree, trial.params), folder, report)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return Trial(number, trial.params, seen[1], int(seen[0]), "stopped")
    except UserError as error:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return Trial(number, trial.params, None, int(seen[0]), "failed", str(error))
    value = None if math.isnan(reporter.last) else reporter.last
    study.tell(trial, value, state=None if value is not None else optuna.trial.TrialState.FAIL)
    return Trial(number, trial.params, value, reporter.epochs, "finished")


def distribution_of(distributions: Any, one: Range | list[Any]) -> Any:
    if isinstance(one, list):
        return distributions.CategoricalDistribution(one)
    if one.whole:
        return distributions.IntDistribution(int(one.low), int(one.high), log=one.log)
    return distributions.FloatDistribution(float(one.low), float(one.high), log=one.log)


def read_trials(folder: Path) -> list[Trial]:
    file = folder / FILE
    if not file.is_file():
        return []
    try:
        return [Trial(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (ValueError, TypeError) as error:
        raise UserError(f"'{file}' is not the list of a sweep: {error}") from None


def write_trials(folder: Path, trials: list[Trial], tree: Mapping[str, Any]) -> None:
    """The list, and the configuration of the best trial."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, "".join(json.dumps(asdict(trial)) + "\n" for trial in trials))
    if (best := best_of(trials)) is not None:
        write_text(folder / BEST, configured(tree, best.settings).to_yaml())


def best_of(trials: list[Trial]) -> Trial | None:
    """The finished trial with the highest mAP, the first of equals."""
    finished = [trial for trial in trials if trial.state == "finished" and trial.mAP is not None]
    return max(finished, key=lambda trial: trial.mAP or 0.0, default=None)
