"""From a run to a list of suggestions: out-of-fold scores of its training items, weighed and listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from raretag.core.errors import UserError
from raretag.core.protocols import PreviewsItems
from raretag.data.dataset import DataSet
from raretag.engine.config import Config
from raretag.engine.out_of_fold import Watch, out_of_fold
from raretag.engine.sources import find_source, group_counts, load
from raretag.labels.corrections import Places
from raretag.labels.counts import groups
from raretag.suggest.answers import NO, YES, Answer
from raretag.suggest.listing import Listing, Suggestion, list_suggestions

_MOST_ENTRIES = 400_000_000  # N x C; scores of all entries are held in memory


@dataclass(frozen=True)
class Wanted:
    most: int = 500  # suggestions of missing positives
    quota: float = 0.3  # share of them that is dealt evenly to all labels
    wrong: int = 50  # suggestions of wrong labels
    kept: float | None = None  # share of the true positives that are marked, if it is known
    folds: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.quota <= 1:
            raise UserError(
                f"quota is {self.quota}; expected the share of the list that is dealt to all labels, 0 to 1"
            )
        if self.kept is not None and not 0 < self.kept < 1:
            raise UserError(
                f"kept is {self.kept}; expected the share of the true positives that are marked, above 0 and below 1: "
                "if all are marked, none is missing"
            )


def suggest(
    config: Config,
    folder: Path,
    wanted: Wanted | None = None,
    *,
    data: DataSet | None = None,
    answered: Sequence[Answer] = (),
    say: Callable[[str], None] = lambda line: None,
    watch: Watch = lambda fold, epochs: None,
) -> tuple[Listing, DataSet]:
    """Suggestions for the training items of `config`; scores of finished folds are kept in `folder`."""
    wanted = wanted or Wanted()
    data = load(config.data, config.seed) if data is None else data
    entries = len(data.train) * data.train.labels.labels
    if entries > _MOST_ENTRIES:
        raise UserError(f"{entries:,} entries are too many to be scored at once; expected {_MOST_ENTRIES:,} at most")
    logits = out_of_fold(config, data, folder, folds=wanted.folds, say=say, watch=watch)
    listing = list_suggestions(
        logits.numpy().astype(np.float64),
        data.train.labels,
        groups(group_counts(data), config.group_edges),
        most=wanted.most,
        quota=wanted.quota,
        kept=wanted.kept,
        wrong=wanted.wrong,
        answered=answered,
        seed=config.seed,
    )
    return listing, data


def from_truth(listing: Listing, data: DataSet) -> Listing:
    """The list answered by what is known, where labels were hidden on purpose."""
    if data.truth is None:
        raise UserError("the truth is known only of labels that were hidden on purpose (data.hide); expected answers")
    places = Places(data.truth)

    def answer(one: Suggestion) -> str:
        return YES if places.state(one.item, one.label) == "positive" else NO

    return replace(listing, suggestions=[replace(one, answer=answer(one)) for one in listing.suggestions])


def shown(config: Config, listing: Listing) -> dict[str, dict[str, str]]:
    """Texts or image paths of the suggested items, if the data are a table of them."""
    source = find_source(config.data, config.seed)
    wanted = {one.item for one in listing.suggestions}
    return source.previews(wanted) if isinstance(source, PreviewsItems) else {}
