"""A race of methods on held-out folds of the training items, within a budget of time.

In each fold every method that is still in the race is trained on the other folds. A method that is clearly worse than
the leader after a fold (the whole paired bootstrap interval of the difference lies below 0) leaves the race. Large sets
are sampled so that the race fits the budget; test items are never looked at.

The score is mAP as if every label were equally frequent: an item counts the more, the rarer its labels are (`rarity`).
Most items of a long tail are about a few labels, and ranking a rare label above those hardly tests whether it is ranked
above other rare ones. On VOC-MLT, whose test part has no long tail, plain held-out mAP has the methods in nearly the
reverse order of the test, this score in its order; on Enron, whose parts are alike, both agree (docs/recommend.md).

As in `evaluate`, unknown labels are left out. Where no negative was observed at all, every ranking would then be
perfect, so there unknown labels count as absent, for every method alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import rankdata
from torch import Tensor

from raretag.config.settings import Config, compose
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener, Step
from raretag.core.ranker import are_many
from raretag.core.targets import Targets
from raretag.data.dataset import DataSet
from raretag.data.sources import load
from raretag.engine.encode import choose_encoder
from raretag.engine.out_of_fold import train_without, with_features
from raretag.labels.split import split
from raretag.metrics.intervals import Difference, difference_of, resampled
from raretag.metrics.weighted import WeightedAveragePrecision
from raretag.recommend.candidates import Candidate, entrants
from raretag.recommend.outcome import Outcome, Runner

MOST_ITEMS, FEWEST_ITEMS = 5000, 300  # of the training part
FOLDS, MORE_FOLDS = 3, 5  # with more, models are trained on nearly as many of the few positives as in the end
PROBE = 0.1  # share of the budget in which the cost of a run is measured
TIE = 0.005  # mAP: a simpler method that is so near, and not clearly worse, is preferred
RESAMPLES = 200
SPARE = 1.2  # of the estimated time of a whole race


class OutOfTimeError(Exception):
    """The budget is used up in the middle of a run."""


class Timekeeper(Listener):
    """Reads the clock after every epoch, and stops a training at the end of the budget."""

    def __init__(self, clock: Callable[[], float], end: float | None = None) -> None:
        self.clock, self.end = clock, end
        self.ticks: list[float] = []  # after each epoch

    def epoch(self, step: Step, row: dict[str, Any]) -> None:
        self.ticks.append(self.clock())
        if self.end is not None and self.ticks[-1] > self.end:
            raise OutOfTimeError

    def progress(self, share: float) -> None:
        if self.end is not None and self.clock() > self.end:
            raise OutOfTimeError


def recommend(
    data: str | DataSet,
    changes: Sequence[str] = (),
    *,
    minutes: float = 5.0,
    listener: Listener = SILENT,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Which method suits a data set: a race of a few, cross-validated on its training items.

    Args:
        data: A data set by name or a file, or a `DataSet`.
        changes: Settings for all methods, as `--set` takes them, such as "train.epochs=5".
        minutes: The budget of time.
        listener: Receives a message after every training.
        clock: Seconds since any start.

    Returns the methods in the order of their scores, and the choice: what `raretag train` would choose for feature
    vectors, unless another is clearly ahead of it; then, or for other inputs, the simplest that is about as good as the
    best; or None if time was too short for a second method. `raretag train --data DATA --set ...` with the settings in
    `outcome.choice.changes` trains it.
    """
    name = data if isinstance(data, str) else None
    config = compose(None, list(changes), name)
    loaded = load(config.data, config.seed) if isinstance(data, str) else data
    labels = loaded.train.labels.labels
    inputs = loaded.train.inputs.batch(torch.arange(1))
    if are_many(len(loaded.train), labels, inputs.numel() if inputs.ndim == 2 else 0):
        raise UserError(
            f"the {labels:,} labels are ranked, and methods that score every label do not race for them; "
            "`raretag train` chooses a ranker"
        )
    config, loaded = choose_encoder(config, loaded, listener)
    chosen = {"encoder": config.encoder}
    configs = [
        (one, compose(None, [*changes, *one.changes], name).model_copy(update=chosen))
        for one in entrants(loaded, config)
    ]
    return race(configs, loaded, minutes=minutes, listener=listener, clock=clock)


def race(
    configs: Sequence[tuple[Candidate, Config]],
    data: DataSet,
    *,
    minutes: float = 5.0,
    folds: int | None = None,
    listener: Listener = SILENT,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """`configs`: each candidate with its whole configuration, the simplest first; `folds`: default: as time allows."""
    if minutes <= 0 or (folds is not None and folds < 2):
        raise UserError(f"{minutes:g} minutes and {folds} folds; expected more than 0 minutes and 2 folds or more")
    began = clock()
    end = began + 60 * minutes
    first = configs[-1][1]
    data, encoded = with_features(data, first, listener)
    configs = [(one, config.model_copy(update={"encoder": encoded.encoder})) for one, config in configs]
    listener.message(f"{len(configs)} methods race for up to {minutes:g} minutes")
    remarks: list[str] = []
    data, folds, costs = sampled(data, configs, folds, end, clock, remarks)
    parts = split(data.train.labels, [1.0 / folds] * folds, first.seed).parts
    statistics = data.train.labels.statistics(cooccurrence=False)
    as_absent = not bool(statistics.negatives.any())
    weight = rarity(data.train.labels.positives)
    nothing = torch.zeros(len(data.train), data.train.labels.labels, dtype=torch.float64)
    ranks = {one.label: nothing.clone() for one, _ in configs}
    done = {one.label: 0 for one, _ in configs}
    seconds = {one.label: 0.0 for one, _ in configs}
    size = len(data.train) * (folds - 1) / folds  # items of a run
    alive = sorted(configs, key=lambda pair: costs[pair[0].label])  # a slow one must not take the time of the others

    def truth(some: int) -> tuple[Tensor, Targets]:
        """Rows of the first folds, and their labels."""
        rows = torch.from_numpy(np.concatenate(parts[:some]))
        found = data.train.labels.targets(rows)
        return rows, Targets(found.positive, torch.ones_like(found.observed)) if as_absent else found

    @cache
    def mean_ap(name: str, some: int) -> Tensor:
        """On the rows of the first folds, then on resamples of them, the same for every method [1 + R]."""
        rows, targets = truth(some)
        measure = WeightedAveragePrecision(ranks[name][rows], targets)
        return resampled([[measure]], len(rows), {}, resamples=RESAMPLES, seed=0, base=weight[rows])[0]["total"]

    def compared(a: str, b: str) -> Difference:
        both = min(done[a], done[b])
        return difference_of(mean_ap(a, both) - mean_ap(b, both))

    def leader() -> str:
        most = max(done.values())
        scores = {name: float(mean_ap(name, most)[0].nan_to_num(-1.0)) for name, ran in done.items() if ran == most}
        return max(scores, key=lambda name: scores[name])

    for fold, rows in enumerate(parts):
        for place, (one, config) in enumerate(alive):
            started = clock()
            until = end - (folds - 1 - fold) * sum(seconds[other.label] for other, _ in alive[:place])
            if any(done.values()) and started + (seconds[one.label] or costs[one.label] * size) > until:
                continue
            try:
                scores = train_without(config, data, rows, Timekeeper(clock, until if any(done.values()) else None))
            except OutOfTimeError:
                continue
            # The models of two folds share no scale, but both rank items of the same kind: ranks can be pooled.
            ranks[one.label][torch.from_numpy(rows)] = torch.from_numpy(rankdata(scores, axis=0) / len(rows))
            done[one.label], seconds[one.label] = fold + 1, clock() - started
            listener.message(f"fold {fold + 1} of {folds}: {one.label}, {seconds[one.label]:.0f} s")
        alive = [(one, config) for one, config in alive if done[one.label] == fold + 1]
        if len(alive) <= 1 or clock() > end:
            break
        best = leader()
        alive = [pair for pair in alive if pair[0].label == best or not compared(pair[0].label, best).high < 0]
    best = leader()
    behind = {name: compared(name, best) for name, ran in done.items() if ran}
    highest = float(mean_ap(best, done[best])[0])
    runners = [
        Runner(one, done[name], seconds[name], highest + behind[name].value, behind[name])
        for one, _ in configs
        if (name := one.label) in behind
    ]
    choice = chosen(runners, best)
    runners.sort(key=lambda r: (r.candidate.label != best, -r.behind.value))
    undecided = [name for name in done if done[name] < folds and not (name in behind and behind[name].high < 0)]
    lacking = sum((folds - done[name]) * (seconds[name] or costs[name] * size) for name in undecided)
    return Outcome(
        runners,
        choice if len(runners) > 1 else None,
        len(data.train),
        folds,
        as_absent,
        remarks,
        tuple(name for name in done if name not in behind),
        None if undecided in ([], [best]) else SPARE * (clock() - began + lacking),  # alone: nobody is left to beat
    )


def rarity(positives: csr_array) -> Tensor:
    """How much an item counts [N]: the mean of 1 / n_c over its labels, 1 on average; without labels as the least."""
    there = positives.astype(np.float64)
    each = there.sum(1)
    found = (there @ (1.0 / np.maximum(there.sum(0), 1))) / np.maximum(each, 1)
    found[each == 0] = found[each > 0].min(initial=1.0)
    return torch.from_numpy(found / found.mean())


def chosen(runners: Sequence[Runner], best: str) -> Candidate:
    """The default, unless the leader is clearly ahead of it; else the simplest that is as good as the leader.

    A race is short and often on a part of the items, and the default was ahead on nearly all sets it was tried on.
    """
    default = next((r for r in runners if r.candidate.default and r.may_be_best), None)
    found = default or next(r for r in runners if is_tie(r.behind) or r.candidate.label == best)
    return found.candidate


def is_tie(behind: Difference) -> bool:
    """Whether a method is as good as the leader for all practical purposes."""
    return behind.value >= -TIE and behind.high >= 0


def sampled(
    data: DataSet,
    configs: Sequence[tuple[Candidate, Config]],
    folds: int | None,
    end: float,
    clock: Callable[[], float],
    remarks: list[str],
) -> tuple[DataSet, int, dict[str, float]]:
    """A stratified part of the training items with which the race should end in time, the number of folds, and what
    a run of each method costs: seconds per item, or more where that took too long to find out."""
    items = len(data.train)
    few = torch.from_numpy(drawn(data, min(items, FEWEST_ITEMS), configs[0][1].seed))
    small = replace(data, train=data.train.take(few), truth=None, published=None)
    allowed = PROBE * (end - clock())
    enough = clock() + allowed
    probed: dict[str, float] = {}
    for one, config in configs:
        if not probed or clock() < enough:
            probed[one.label] = cost(config, small, clock, clock() + allowed if probed else None)
    mean = sum(probed.values()) / len(probed)
    costs = {one.label: probed.get(one.label, mean) for one, _ in configs}
    each = sum(costs.values())
    affordable = (end - clock()) / max(each, 1e-12)  # items in all runs of all methods
    if folds is None:
        folds = MORE_FOLDS if affordable / (MORE_FOLDS - 1) >= min(items, MOST_ITEMS) else FOLDS
    size = max(min(items, MOST_ITEMS, int(affordable / (folds - 1))), min(items, FEWEST_ITEMS))
    if size == items:
        return data, folds, costs
    remarks.append(f"a stratified sample of {size:,} of {items:,} training items took part")
    rows = torch.from_numpy(drawn(data, size, configs[0][1].seed))
    return replace(data, train=data.train.take(rows), truth=None, published=None), folds, costs


def cost(config: Config, data: DataSet, clock: Callable[[], float], end: float | None = None) -> float:
    """Seconds of a whole run for each item, from its second epoch: the first has the cost of a start in it.

    Of a run that is not over at `end`, those until then.
    """
    short = config.model_copy(update={"train": config.train.model_copy(update={"epochs": 2})})
    held = np.arange(len(data.train) // 3)
    started = clock()
    keeper = Timekeeper(clock, end)
    try:
        train_without(short, data, held, keeper)
    except OutOfTimeError:
        return (clock() - started) / (len(data.train) - len(held))
    ticks = keeper.ticks or [clock()]  # a method that solves has no epochs
    seconds = ticks[-1] - (started if len(ticks) == 1 else ticks[-2])
    return seconds * (config.train.epochs if len(ticks) == 2 else 1) / (len(data.train) - len(held))


def drawn(data: DataSet, size: int, seed: int) -> NDArray[np.int64]:
    """So many rows of the training part, stratified by labels."""
    items = len(data.train)
    if size >= items:
        return np.arange(items)
    return np.sort(split(data.train.labels, [size / items, 1 - size / items], seed).parts[0])
