"""From a run to a list of suggestions: out-of-fold scores of its training items, weighed and listed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from raretag.config.settings import Config, checked, compose, data_of, put
from raretag.config.settings import read as read_settings
from raretag.core.errors import UserError
from raretag.core.listener import SILENT, Listener
from raretag.core.protocols import PreviewsItems
from raretag.core.ranker import is_ranker
from raretag.data.dataset import DataSet
from raretag.data.fingerprint import fingerprint, refuse_changed
from raretag.data.sources import find_source, group_counts, load
from raretag.engine.auto import all_will_teach
from raretag.engine.out_of_fold import out_of_fold, ranked_out_of_fold
from raretag.labels.corrections import Places
from raretag.labels.counts import groups
from raretag.runs import manifest
from raretag.runs.card import read_card
from raretag.runs.ranked_card import is_ranked, read_labels, read_ranked_card
from raretag.runs.run import Run
from raretag.suggestions.answers import NO, YES, Answer, read
from raretag.suggestions.listing import Suggestion, Suggestions
from raretag.suggestions.ranked import list_ranked
from raretag.suggestions.selection import list_suggestions

_MOST_ENTRIES = 400_000_000  # N x C; scores of all entries are held in memory


@dataclass(frozen=True)
class SuggestOptions:
    """What a list of suggestions shall hold."""

    most: int = 500  # suggestions of missing positives
    quota: float = 0.3  # share of them that is dealt evenly to all labels
    wrong: int = 50  # suggestions of wrong labels, at most
    label_frequency: float | None = None  # share of the true positives that are marked, if it is known
    folds: int = 5  # trainings; each scores the items that it was not trained on
    teach: bool = False  # what teaches rare labels most, not what is likeliest

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
    run: str | os.PathLike[str] | Run,
    data: str | os.PathLike[str] | DataSet | None = None,
    *,
    most: int = 500,
    quota: float = 0.3,
    wrong: int = 50,
    label_frequency: float | None = None,
    answers: str | os.PathLike[str] | Sequence[Answer] = (),
    folds: int = 5,
    data_changed: bool = False,
    listener: Listener = SILENT,
) -> Suggestions:
    """Labels that are probably missing or wrong, each with a probability.

    The run is trained again on folds of its data, so that no model scores items that it was trained on: as its
    configuration says, so a module or a method of your own must be one that it can name. Scores of finished folds are
    kept in the run folder, and a second call with the same data takes seconds.

    Args:
        run: The folder of a run, or a run as `raretag.train` returns it.
        data: What to look at: a data set by name or a file, or a `DataSet`. Default: the training data of the run.
            The folder of a run that was trained on objects in memory needs that `DataSet` here.
        most: How many missing positives to suggest.
        quota: The share of them that is dealt evenly to all labels, so that rare ones appear.
        wrong: How many observed labels to doubt at most.
        label_frequency: The share of the true positives that are marked, if you know it.
        answers: An earlier list with answers, as a file or read already; it corrects the probabilities.
        folds: How many times to train.
        data_changed: Go on also if the data of the run's folder is not what it was in training.
        listener: Receives messages, and how much of the training is done.

    Returns the list, likeliest first: `found[0].item`, `found.promises`, `found.to_csv("list.csv")`. An item is named
    by its id, or by its row in the training part, from 0, where the data has no ids.
    """
    options = SuggestOptions(most, quota, wrong, label_frequency, folds)
    given = read(Path(answers)) if isinstance(answers, (str, os.PathLike)) else answers
    trained = _Trained.of(run) if isinstance(run, Run) else _Trained.read(Path(run))
    config = trained.config if not isinstance(data, (str, os.PathLike)) else _with_data(trained.config, str(data))
    items = trained.data if data is None else data if isinstance(data, DataSet) else None
    if isinstance(data, DataSet) and all_will_teach(config, None, own_model=False):  # validation items too
        items = data.all_teaching()
    known = items is not None
    if items is None:
        items = load(config.data, config.seed)
    if data is None:
        trained.check_labels(items)
        if trained.folder is not None and not known and not data_changed:
            refuse_changed(manifest.data_of(trained.folder), fingerprint(items), trained.folder)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if trained.folder is None else trained.folder / "out_of_fold"
        found, _ = suggest_for(config, folder, options, data=items, answered=given, listener=listener)
    return found if known else with_previews(found, config)


@dataclass(frozen=True)
class _Trained:
    """What is needed of a run."""

    config: Config
    labels: list[str]  # empty: not known
    folder: Path | None = None
    data: DataSet | None = None  # where it is still in memory

    @classmethod
    def of(cls, run: Run) -> _Trained:
        config = checked(run.record.config)
        plain = config.encoder.name in ("none", "auto")  # behind an encoder there are only its features
        data = run.data if plain else None
        return cls(config, run.record.data.labels, run.folder, data)

    @classmethod
    def read(cls, folder: Path) -> _Trained:
        if not (folder / "config.yaml").is_file():
            raise UserError(
                f"'{folder}' is not a run folder (no config.yaml in it); `raretag train --out {folder}` makes one"
            )
        labels: list[str] = []
        if is_ranked(folder):
            labels = list(read_labels(folder, read_ranked_card(folder)).names)
        elif (folder / "card.json").is_file():
            labels = read_card(folder).labels
        return cls(compose(folder / "config.yaml", []), labels, folder)

    def check_labels(self, data: DataSet) -> None:
        """The configuration of a run that was trained on objects in memory names other data."""
        if self.labels and not set(self.labels) & set(data.train.labels.names):
            raise UserError(
                f"the run was trained on other labels, such as '{self.labels[0]}', than '{data.name}' has, such as "
                f"'{data.train.labels.names[0]}'; if it was trained on a DataSet in memory, give that as data"
            )


def _with_data(config: Config, data: str) -> Config:
    tree = config.model_dump(mode="json")
    for key, value in data_of(data).items():
        put(tree, f"data.{key}", value)
    return checked(tree)


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
    members = groups(group_counts(data), config.group_edges)
    if is_ranker(config.method.name):
        return list_ranked(
            ranked_out_of_fold(config, data, folder, folds=options.folds, listener=listener),
            data.train.labels,
            {name: some.numpy() for name, some in members.items()},
            most=options.most,
            quota=options.quota,
            label_frequency=options.label_frequency,
            answered=answered,
            seed=config.seed,
        ), data
    entries = len(data.train) * data.train.labels.labels
    if entries > _MOST_ENTRIES:
        raise UserError(f"{entries:,} entries are too many to be scored at once; expected {_MOST_ENTRIES:,} at most")
    found = list_suggestions(
        out_of_fold(config, data, folder, folds=options.folds, listener=listener).numpy().astype(np.float64),
        data.train.labels,
        members,
        most=options.most,
        quota=options.quota,
        label_frequency=options.label_frequency,
        by_label=config.data.marking == "by_label",
        wrong=options.wrong,
        answered=answered,
        teach=options.teach,
        seed=config.seed,
    )
    return found, data


def load_for(run: Path, config: Config, *, data_changed: bool = False) -> DataSet:
    """The data of `config`; if that is the run's own, it must hold what it held in training."""
    data = load(config.data, config.seed)
    stored = checked(read_settings(run / "config.yaml"))
    if (stored.data, stored.seed) == (config.data, config.seed) and not data_changed:
        refuse_changed(manifest.data_of(run), fingerprint(data), run)
    return data


def answer_from_truth(found: Suggestions, data: DataSet) -> Suggestions:
    """The list answered by the truth, where labels were hidden on purpose."""
    if data.truth is None:
        raise UserError("the truth is known only for labels that were hidden on purpose (data.hide); expected answers")
    places = Places(data.truth)

    def answer(one: Suggestion) -> str:
        return YES if places.state(one.item, one.label) == "positive" else NO

    return replace(found, suggestions=[replace(one, answer=answer(one)) for one in found])


def with_previews(found: Suggestions, config: Config) -> Suggestions:
    """With texts or image paths of the suggested items, if the data is a table of them."""
    source = find_source(config.data, config.seed)
    if not isinstance(source, PreviewsItems):
        return found
    return replace(found, previews=source.previews({one.item for one in found}))


def expected_seconds(run: Path, folds: int) -> float:
    """How long `suggest` will take, from how long the run took; 0 if that is not known."""
    try:
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        seconds = sum(json.loads(line).get("seconds", 0) for line in lines)
    except (OSError, ValueError):
        return 0.0
    return float(seconds * (folds - 1))  # each fold trains on the others
