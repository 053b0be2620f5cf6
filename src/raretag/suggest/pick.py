"""Which entries are suggested: the likeliest, and for every label a few of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raretag.suggest.scale import NEVER, Bools, Floats


@dataclass(frozen=True)
class Picked:
    row: np.ndarray  # [K], best first
    label: np.ndarray  # [K]
    by_rank: Bools  # [K], False: only a quota brought it here

    def __len__(self) -> int:
        return len(self.row)

    def first(self, count: int) -> Picked:
        return Picked(self.row[:count], self.label[:count], self.by_rank[:count])

    def mask(self, shape: tuple[int, ...], only_by_rank: bool = False) -> Bools:
        """The entries as an [N, C] array."""
        mask = np.zeros(shape, np.bool_)
        some = self.by_rank if only_by_rank else slice(None)
        mask[self.row[some], self.label[some]] = True
        return mask


def pick(t: Floats, candidates: Bools, most: int, quota: float) -> Picked:
    """`most` candidates with the highest t [N, C]. The share `quota` of them is dealt evenly to all labels first.

    Where there are more labels than places to deal, labels with a likelier best candidate come first.
    """
    most = min(most, int((candidates & (t > NEVER)).sum()))
    scores = np.where(candidates & (t > NEVER), t, -np.inf)
    chosen = np.zeros(t.shape, np.bool_)
    _deal(scores, chosen, int(quota * most))
    rest = most - int(chosen.sum())
    by_rank = np.zeros(t.shape, np.bool_)
    order = np.argsort(-scores, axis=None, kind="stable")[:most]
    # A quota's entry that its rank would have brought here anyway frees a place, so the cut falls until all are used.
    taken = np.cumsum(~chosen.ravel()[order])
    by_rank.ravel()[order[: int(np.searchsorted(taken, rest, side="right"))]] = True
    row, label = np.nonzero(chosen | by_rank)
    best_first = np.argsort(-scores[row, label], kind="stable")
    row, label = row[best_first], label[best_first]
    return Picked(row, label, by_rank[row, label])


def _deal(scores: Floats, chosen: Bools, places: int) -> None:
    best = scores.max(axis=0)  # [C]
    labels = [int(label) for label in np.argsort(-best, kind="stable") if np.isfinite(best[label])]
    each = max(places // max(len(labels), 1), 1)
    for label in labels[: places // each]:
        rows = np.argsort(-scores[:, label], kind="stable")[:each]
        chosen[rows[np.isfinite(scores[rows, label])], label] = True
