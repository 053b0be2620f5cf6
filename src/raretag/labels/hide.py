r"""Hide labels of a data set on purpose, to compare methods for missing labels.

Zhang et al., arXiv:2308.00166, section III-A, for items with L labels, each 0, 1 or unknown::

    none      everything stays (the paper's FAL)
    pal  (2)  each label, positive or negative, stays with probability `keep`
    ppl  (3)  each positive stays with probability `keep`; no negative stays
    spl  (4)  one positive, drawn uniformly, stays; no negative stays

The paper says "a certain proportion": each label is drawn by itself here, so an item may keep no positive (the paper
allows this in PAL); `at_least_one` keeps one, as the published PPL lists of COCO do.

Every label has one draw in [0, 1), a function of (seed, item id, label), and stays if the draw is small. So the result
does not depend on the order of the items, what stays at keep = 0.3 also stays at 0.6, and the single positive of SPL
is the one that `at_least_one` would keep.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.labels.entries import Entries, pack
from raretag.labels.rows import Bools, Rows, blocks
from raretag.labels.store import LabelStore

Setting: TypeAlias = Literal["none", "pal", "ppl", "spl", "fal"]  # fal: the old name of none

_PURPOSE = int.from_bytes(b"hide", "big")  # so that these draws are not those of someone else with the same seed


def hide(
    store: LabelStore, setting: Setting, keep: float | None = None, seed: int = 0, at_least_one: bool = False
) -> LabelStore:
    """The same items with fewer labels observed. What was unknown stays unknown.

    Args:
        store: the labels to hide from.
        setting: "none", "pal", "ppl" or "spl", see above.
        keep: for pal and ppl, the probability that a label stays.
        seed: with the id of the item and the label, it decides each draw.
        at_least_one: every item that has a positive keeps one.

    >>> store = LabelStore.from_lists([["cat", "dog"], ["dog"]])
    >>> [len(row) for row in hide(store, "spl").lists()], f"{hide(store, 'spl').observed_share:.0%}"
    ([1, 1], '50%')
    """
    setting = "none" if setting == "fal" else setting
    _check(setting, keep)
    if setting == "none":
        return store
    positives, items = store.entries.positives, store.item_keys()
    draws = _draws(seed, items, positives)
    stays = np.zeros(len(draws), np.bool_) if keep is None else draws < keep
    if setting == "spl" or at_least_one:
        stays |= _first_where_none(positives, draws, stays)
    kept = positives.kept(stays)
    if setting == "pal" and keep is not None:
        return store.holding(_with_negatives(store.entries, kept, keep, seed, items))
    return store.holding(Entries.of_lists(kept, store.labels, "unknown", None))


def _check(setting: Setting, keep: float | None) -> None:
    if setting not in ("none", "pal", "ppl", "spl"):
        raise UserError(f"there is no setting {setting!r}; expected 'none', 'pal', 'ppl' or 'spl'")
    if setting in ("none", "spl") and keep is not None:
        raise UserError(f"'{setting}' has no share to choose, but keep is {keep}; use 'pal' or 'ppl', or leave it out")
    if setting in ("pal", "ppl") and (keep is None or not 0 <= keep <= 1):
        raise UserError(f"'{setting}' needs keep, the probability from 0 to 1 that a label stays; got {keep}")


def _draws(seed: int, items: Tensor, rows: Rows) -> NDArray[Any]:
    """A number in [0, 1) for each entry."""
    item = items[torch.from_numpy(rows.row)]
    return chance.uniform(_PURPOSE, seed, item, torch.from_numpy(rows.indices.astype(np.int64))).numpy()


def _first_where_none(rows: Rows, draws: NDArray[Any], stays: Bools) -> Bools:
    """The entry with the smallest draw of each row in which nothing stays."""
    first = np.zeros(len(draws), np.bool_)
    row = rows.row
    order = np.lexsort((draws, row))
    filled = rows.lengths > 0
    smallest = order[rows.indptr[:-1][filled]]  # sorted by row, then by draw: the first entry of each row
    empty = np.bincount(row[stays], minlength=len(rows))[filled] == 0
    first[smallest[empty]] = True
    return first


def _with_negatives(entries: Entries, kept: Rows, keep: float, seed: int, items: Tensor) -> Entries:
    """The kept positives, and each observed negative with probability `keep`."""
    if entries.bits is None and entries.absent == "unknown":
        listed = entries.listed
        stay = None if listed is None else listed.kept(_draws(seed, items, listed) < keep)
        return Entries.of_lists(kept, entries.labels, "unknown", stay)
    bits = [np.zeros((0, (entries.labels + 7) // 8), np.uint8)]
    columns = torch.arange(entries.labels)[None, :]
    for start, stop in blocks(len(entries), entries.labels):
        draws = chance.uniform(_PURPOSE, seed, items[start:stop, None], columns).numpy()  # [b, C]
        observed = entries.observed(start, stop) & (draws < keep)
        entries.positives.span(start, stop).mark(observed, False)
        kept.span(start, stop).mark(observed, True)  # at_least_one may have kept more than the draw did
        bits.append(pack(observed))
    return Entries.of_bits(kept, entries.labels, np.concatenate(bits))
