"""From a run to a list of suggestions: out-of-fold scores of its training items, weighed and listed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from raretag.config.settings import Config, compose
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.protocols import HasContents
from raretag.data.sources import find_source, group_counts, load
from raretag.engine.out_of_fold import out_of_fold
from raretag.labels.collection import DataSet
from raretag.labels.corrections import Places
from raretag.labels.groups import groups
from raretag.runs.card import read_card
from raretag.suggest.answers import NO, YES, Answer, read
from raretag.suggest.listing import Suggestion, Suggestions
from raretag.suggest.selection import list_suggestions

_MOST_ENTRIES = 400_000_000  # N x C; scores of all entries are held in memory


@dataclass(frozen=True)
class SuggestOptions:
    """What a list of suggestions shall hold."""

    most: int = 500  # suggestions of missing positives
    quota: float = 0.3  # share of them that is dealt evenly to all labels
    wrong: int = 50  # suggestions of wrong labels, at most
    label_frequency: float | None = None  # share of the true positives that are marked, if it is known
    folds: int = 5  # trainings; each scores the items that it was not trained on

    def __post_init__(self) -> None:
        if not 0 <= self.quota <= 1:
            raise UserError(
                f"quota is {self.quota}; expected the share of the list that is dealt to all labels, 0 to 1"
            )
        if self.label_frequency is not None and not 0 < self.label_frequency < 1:
            raise UserError(
                f"kept is {self.label_frequency}; expected the share of the true positives that are marked, above 0 "
                "and below 1: if all are marked, none is missing"
            )


def suggest(
    run: str | os.PathLike[str] | Config,
    data: str | DataSet | None = None,
    *,
    most: int = 500,
    quota: float = 0.3,
    wrong: int = 50,
    label_frequency: float | None = None,
    answers: str | os.PathLike[str] | Sequence[Answer] = (),
    folds: int = 5,
    listener: Listener = SILENT,
) -> Suggestions:
    """Labels that are probably missing or wrong, each with a probability.

    The run is trained again on folds of its data, so that no model scores items that it was trained on. Scores of
    finished folds are kept in the run folder, and a second call with the same data takes seconds.

    Args:
        run: The folder of a run, or a configuration; scores of a configuration are not kept.
        data: What to look at: a data set by name or a file, or a `DataSet`. Default: the training data of the run.
            A run that was trained on objects in memory needs its `DataSet` here.
        most: How many missing positives to suggest.
        quota: The share of them that is dealt evenly to all labels, so that rare ones appear.
        wrong: How many observed labels to doubt at most.
        label_frequency: The share of the true positives that are marked, if you know it.
        answers: An earlier list with answers, as a file or read already; it corrects the probabilities.
        folds: How many times to train.
        listener: Receives messages, and how much of the training is done.

    Returns the list, likeliest first: `found[0].item`, `found.promises`, `found.to_csv("list.csv")`. An item is named
    by its id, or by its row in the training part, from 0, where the data has no ids.
    """
    options = SuggestOptions(most, quota, wrong, label_frequency, folds)
    named = data if isinstance(data, str) else None
    config = compose(_config_file(Path(run)), [], named) if not isinstance(run, Config) else run
    if isinstance(run, Config) and named is not None:
        raise UserError("a configuration names its own data; expected a DataSet or nothing as data")
    given = read(Path(answers)) if isinstance(answers, (str, os.PathLike)) else answers
    items = data if isinstance(data, DataSet) else load(config.data, config.seed)
    if data is None and not isinstance(run, Config):
        _check_labels(Path(run), items)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if isinstance(run, Config) else Path(run) / "out_of_fold"
        found, _ = suggest_for(config, folder, options, data=items, answered=given, listener=listener)
    return found if isinstance(data, DataSet) else with_contents(found, config)


def _check_labels(run: Path, data: DataSet) -> None:
    """A run that was trained on objects in memory has a configuration that names other data."""
    trained = read_card(run).labels if (run / "card.json").is_file() else list(data.train.labels.names)
    if not set(trained) & set(data.train.labels.names):
        raise UserError(
            f"'{run}' was trained on other labels, such as '{trained[0]}', than '{data.name}' has, such as "
            f"'{data.train.labels.names[0]}'; if it was trained on a DataSet in memory, give that as data"
        )


def _config_file(run: Path) -> Path:
    if not (run / "config.yaml").is_file():
        raise UserError(f"'{run}' is not a run folder (no config.yaml in it); `raretag train --out {run}` makes one")
    return run / "config.yaml"


def suggest_for(
    config: Config,
    folder: Path,
    options: SuggestOptions | None = None,
    *,
    data: DataSet | None = None,
    answered: Sequence[Answer] = (),
    listener: Listener = SILENT,
) -> tuple[Suggestions, DataSet]:
    """Suggestions for the training items of `config`, and its data; scores of finished folds are kept in `folder`."""
    options = options or SuggestOptions()
    data = load(config.data, config.seed) if data is None else data
    entries = len(data.train) * data.train.labels.labels
    if entries > _MOST_ENTRIES:
        raise UserError(f"{entries:,} entries are too many to be scored at once; expected {_MOST_ENTRIES:,} at most")
    found = list_suggestions(
        out_of_fold(config, data, folder, folds=options.folds, listener=listener).numpy().astype(np.float64),
        data.train.labels,
        groups(group_counts(data), config.group_edges),
        most=options.most,
        quota=options.quota,
        label_frequency=options.label_frequency,
        wrong=options.wrong,
        answered=answered,
        seed=config.seed,
    )
    return found, data


def answer_from_truth(found: Suggestions, data: DataSet) -> Suggestions:
    """The list answered by the truth, where labels were hidden on purpose."""
    if data.truth is None:
        raise UserError("the truth is known only of labels that were hidden on purpose (data.hide); expected answers")
    places = Places(data.truth)

    def answer(one: Suggestion) -> str:
        return YES if places.state(one.item, one.label) == "positive" else NO

    return replace(found, suggestions=[replace(one, answer=answer(one)) for one in found])


def with_contents(found: Suggestions, config: Config) -> Suggestions:
    """With texts or image paths of the suggested items, if the data is a table of them."""
    source = find_source(config.data, config.seed)
    if not isinstance(source, HasContents):
        return found
    return replace(found, contents=source.shown({one.item for one in found}))


def expected_seconds(run: Path, folds: int) -> float:
    """How long `suggest` will take, from how long the run took; 0 if that is not known."""
    try:
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        seconds = sum(json.loads(line).get("seconds", 0) for line in lines)
    except (OSError, ValueError):
        return 0.0
    return float(seconds * (folds - 1))  # each fold trains on the others
