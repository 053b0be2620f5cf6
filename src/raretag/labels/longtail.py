r"""Make a long tail: row numbers of a subset whose labels are as rare as a curve says.

Exponential, for items with one label: Cui et al., "Class-Balanced Loss", CVPR 2019, section 5.1::

    n_i = int(n_max (1 / ratio)^(i / (C - 1))),   i = 0 .. C - 1 in label order

Pareto, for items with many labels: Wu et al., "Distribution-Balanced Loss", ECCV 2020, appendix A.1::

    pdf(x) = b / x^(b + 1),   x_i = C points evenly spaced from 1 to the 0.99 quantile 100^(1/b)
    n_i = int((n_max - n_min) pdf(x_i) / b + n_min)

    (1)  p_i = 1/C sum_j n_ij / n_j        labels are ranked by it on the full set, and visited from head to tail
    An item of label i is added or eliminated at random until the subset has n_i of them.

Departs from the authors' code: theirs draws from Python sets and cannot be repeated; here a draw belongs to (seed,
label, item). As with theirs, later labels change the counts of earlier ones, so the counts at the end are only near
the curve.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.labels.counts import count
from raretag.labels.rows import Ints
from raretag.labels.store import LabelStore

_PURPOSE = int.from_bytes(b"longtail", "big")


def exponential_counts(largest: int, labels: int, ratio: float) -> list[int]:
    """How many items each label should have; the first has `ratio` times as many as the last."""
    if ratio < 1:
        raise UserError(
            f"ratio is {ratio}; expected how many times the first label is more frequent than the last, >= 1"
        )
    return [int(largest * (1.0 / ratio) ** (i / max(labels - 1.0, 1.0))) for i in range(labels)]


def exponential(store: LabelStore, ratio: float, seed: int = 0, largest: int | None = None) -> Ints:
    """Rows of a subset in which label i has n_i items. Without `largest`, the first label keeps all that it has."""
    several = np.nonzero(store.entries.positives.lengths != 1)[0]
    if several.size:
        found = int(store.entries.positives.lengths[several[0]])
        raise UserError(
            f"row {several[0]} has {found} positive labels; expected one per item: use pareto for many labels"
        )
    label = store.entries.positives.indices
    available = np.bincount(label, minlength=store.labels)
    wanted = exponential_counts(int(available[0]) if largest is None else largest, store.labels, ratio)
    short = np.nonzero(available < wanted)[0]
    if short.size:
        first = int(short[0])
        raise UserError(
            f"label '{store.names[first]}' has {available[first]} items and needs {wanted[first]}; "
            "choose a smaller `largest`"
        )
    items = store.item_keys()
    of_label = np.split(np.argsort(label, kind="stable"), np.cumsum(available)[:-1])  # the rows of each label
    chosen = [_drawn(items, i, rows, n, seed) for i, (rows, n) in enumerate(zip(of_label, wanted, strict=True))]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *chosen]))


def pareto_reference(labels: int, largest: int, power: float, smallest: int = 1) -> list[int]:
    """How many items each label should have, from head to tail."""
    x = np.linspace(1.0, 100.0 ** (1.0 / power), labels)
    return [int(n) for n in (largest - smallest) * x ** -(power + 1.0) + smallest]


def pareto(store: LabelStore, largest: int, power: float, seed: int = 0) -> Ints:
    """Rows of a subset whose label counts follow the Pareto curve as closely as labels that come together allow."""
    inside = np.zeros(len(store), np.bool_)
    for _, after in pareto_steps(store, largest, power, seed):
        inside = after
    return np.nonzero(inside)[0]


def pareto_steps(
    store: LabelStore, largest: int, power: float, seed: int = 0
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """The same label by label, from head to tail: the label, and which items are inside after its turn."""
    inside = np.zeros(len(store), np.bool_)
    positives, items = store.entries.positives, store.item_keys()
    by_label = np.argsort(positives.indices, kind="stable")
    row = positives.row[by_label]
    ends = np.cumsum(np.bincount(positives.indices, minlength=store.labels))
    for label, wanted in zip(_head_to_tail(store), pareto_reference(store.labels, largest, power), strict=True):
        holders = row[(ends[label - 1] if label else 0) : ends[label]]  # all items with this label
        present, missing = holders[inside[holders]], holders[~inside[holders]]
        if len(present) < wanted:
            inside[_drawn(items, label, missing, wanted - len(present), seed)] = True
        else:
            inside[_drawn(items, label, present, len(present) - wanted, seed)] = False
        yield label, inside.copy()


def _head_to_tail(store: LabelStore) -> list[int]:
    """Labels by (1), the largest p first; equal ones in label order."""
    statistics = count(store, cooccurrence=True)
    together = statistics.cooccurrence
    assert together is not None
    given = statistics.positives.clamp(min=1).double()  # n_j; a label without positives has n_ij = 0
    p = torch.mv(together.double(), 1.0 / given)  # sum over j; n_ij is symmetric
    return torch.argsort(-p, stable=True).tolist()


def _drawn(items: Tensor, label: int, rows: Ints, size: int, seed: int) -> Ints:
    """`size` of the rows at random, or all if there are not so many."""
    keys = chance.key(_PURPOSE, seed, label, items[torch.from_numpy(rows)])
    first: Ints = torch.argsort(keys, stable=True)[:size].numpy()
    return rows[first]
