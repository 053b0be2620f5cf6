r"""Signs that tags are missing where no file says so: a list of tags leaves out what nobody thought of.

Two signs, each with what it assumes. Items without any tag: if every item truly has at least one label, their share
tells how many tags are marked (empty_items.py). And scores: unmarked items that score out of fold like marked ones
(label_frequency.py). Scores alone cannot tell missing tags from a model that knows little, so an interval that reaches
nearly all tags, or nearly everything, is not called a sign.
"""

from __future__ import annotations

import numpy as np

from raretag.labels.store import LabelStore
from raretag.metrics.empty_items import EmptyItems
from raretag.metrics.label_frequency import Floats
from raretag.suggestions.probabilities import estimate_probabilities

_FEWEST = 50  # marked positives from which scores are looked at
_MOST_ENTRIES = 40_000_000  # N x C
_HIGHEST, _WIDEST = 0.9, 0.5  # ends and widths of intervals beyond which scores show nothing (docs/log.md)


def signs_in_labels(labels: LabelStore, absent: str = "negative") -> list[str]:
    """What the labels alone show, in sentences; none where unknown labels are told apart already."""
    if labels.observed_share < 1 or absent != "negative" or not len(labels):
        return []
    counts = np.diff(labels.entries.positives.indptr)  # [N]
    empty = EmptyItems.of(counts)
    if not empty.tell:
        return []
    share = empty.marked_share()
    said = f"{empty.empty:.0%} of the items have no tag at all"
    if share is not None and share < 0.95:
        said += f"; if every item truly has one, only about {share:.0%} of the tags are marked"
    return [f"{said}. {advice()}"]


def signs_in_scores(logits: Floats, labels: LabelStore) -> list[str]:
    """What out-of-fold logits [N, C] of the same items show."""
    targets = labels.targets()
    if labels.observed_share < 1 or logits.size > _MOST_ENTRIES or int(targets.positive.sum()) < _FEWEST:
        return []
    frequency = estimate_probabilities(logits, targets).frequency
    middle, low, high = frequency.interval()
    if high > _HIGHEST or high - low > _WIDEST:
        return []
    return [
        f"unmarked items score like marked ones (out of fold): about {middle:.0%} of the tags are marked, between "
        f"{low:.0%} and {high:.0%}. {advice()}"
    ]


def advice() -> str:
    return "`--set data.absent=unknown` takes unlisted labels as unknown; `raretag review RUN` lists the likeliest"
