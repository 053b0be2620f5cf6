"""What a data set holds, in four short numbers: which items, which inputs, which labels, and what belongs together.

A run keeps them (runs/manifest.py), so that it is never continued or explained with other data without a word. Each
number is a sum over items of 64-bit hashes, so the order of a file does not matter where items have ids or are known
by their content. It finds accidents; whoever wants to forge one can.

What is hashed is what the user gave, not what became of it: the numbers before any scaling, texts, and of an image file
its size and its first and last 64 KB, which is all of most photographs. Inputs that a program makes anew each time (a
`torch` dataset) are not hashed, and then only items and labels are compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.data.dataset import DataSet, Inputs, Items, content_hashes
from raretag.labels.rows import blocks
from raretag.labels.store import LabelStore

ITEMS, FEATURES, LABELS, TOGETHER = "items", "features", "labels", "together"
MATCH = "matches of items, inputs, labels and parts"  # where each of them is as it was
AT_ONCE = 4096  # items that are looked at together
Fingerprint = Mapping[str, str | None]  # None: not known


def fingerprint(data: DataSet) -> dict[str, str | None]:
    """
    >>> from raretag.data import from_arrays
    >>> tags, ids = [["cat"], ["dog"]] * 5, [f"photo {n}" for n in range(10)]
    >>> one = fingerprint(from_arrays(np.eye(10), tags, ids=ids))
    >>> changed(one, fingerprint(from_arrays(np.eye(10), [*tags[:9], ["cat", "dog"]], ids=ids)))
    ['labels']
    """
    total = dict.fromkeys((ITEMS, FEATURES, LABELS, TOGETHER), 0)
    known = True
    for number, (name, items) in enumerate(data.parts.items()):
        if name == "validation" and items is data.train:
            continue
        item, label, content = keys_of(items), label_hashes(items.labels), content_of(items.inputs)
        if len(content) < len(items):
            known, content = False, torch.zeros_like(item)
        total[ITEMS] += _sum(item) + len(items) * chance.number(number)
        total[FEATURES] += _sum(chance.key(item, content))
        total[LABELS] += _sum(chance.key(item, label))
        total[TOGETHER] += _sum(chance.key(number, item, content, label))
    found: dict[str, str | None] = {name: f"{value % 2**64:016x}" for name, value in total.items()}
    return found if known else {**found, FEATURES: None}


def changed(before: Fingerprint, now: Fingerprint) -> list[str]:
    """What differs, in words; empty if nothing does, or if nothing is known of before."""
    differs = [
        name for name in (ITEMS, FEATURES, LABELS) if before.get(name) and now.get(name) and before[name] != now[name]
    ]
    if not differs and before.get(TOGETHER) and before[TOGETHER] != now[TOGETHER]:
        return [MATCH]
    return differs


def refuse_changed(before: Fingerprint, now: Fingerprint, run: object, *, ignore: tuple[str, ...] = ()) -> None:
    """Other data than the run was trained on is a mistake unless the user says that it is none."""
    differs = [one for one in changed(before, now) if one not in ignore]
    if differs:
        raise UserError(
            f"the data has changed since '{run}' was trained: other {' and '.join(differs)}; "
            "restore the old data, train a new run, or continue anyway with --data-changed"
        )


def keys_of(items: Items) -> Tensor:
    """[N] what an item is known by: its id, its place where it has none, or nothing where its content is its name."""
    labels = items.labels
    return labels.item_keys() if labels.given_keys is None else torch.zeros(len(items), dtype=torch.int64)


def label_hashes(store: LabelStore) -> Tensor:
    """[N] of the states of all labels, whatever the form of the store: a sum of codes of positives and negatives."""
    positive = chance.of_names(store.names).numpy()
    negative = chance.mix(torch.from_numpy(positive) + 1).numpy()
    entries, found = store.entries, np.zeros(len(store), np.int64)
    for start, stop in blocks(len(entries), entries.labels):
        some = entries.span(start, stop)
        block = _sums(some.positives.indptr, positive[some.positives.indices])
        if some.bits is not None:
            block += some.observed().astype(np.int64) @ negative - _sums(
                some.positives.indptr, negative[some.positives.indices]
            )
        elif some.absent == "unknown":
            block += 0 if some.listed is None else _sums(some.listed.indptr, negative[some.listed.indices])
        else:  # all are negative but the positives and those listed as unknown
            block += negative.sum() - _sums(some.positives.indptr, negative[some.positives.indices])
            block -= 0 if some.listed is None else _sums(some.listed.indptr, negative[some.listed.indices])
        found[start:stop] = block
    return torch.from_numpy(found)


def _sums(indptr: NDArray[np.integer], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each row of a sparse matrix."""
    sums = np.concatenate([[0], np.cumsum(values)])
    return np.asarray(np.diff(sums[indptr - indptr[0]]), np.int64)


def content_of(inputs: Inputs) -> Tensor:
    """[N] hashes of what the user gave for each item."""
    found = [content_hashes(inputs, rows) for rows in torch.arange(len(inputs)).split(AT_ONCE)]
    known = [one for one in found if one is not None]
    return torch.cat([torch.zeros(0, dtype=torch.int64), *known])


def content_keys(content: Tensor, labels: LabelStore) -> Tensor:
    """[N] what draws depend on where items have no ids: content, and a number for each of several that are the same.

    Those are numbered by their labels, so that two files with the same rows give every row the same key.
    """
    order = np.lexsort((label_hashes(labels).numpy(), content.numpy()))
    new = np.concatenate([[True], np.diff(content.numpy()[order]) != 0])
    place = np.arange(len(order)) - np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    copies = np.empty(len(order), np.int64)
    copies[order] = place
    return chance.key(content, torch.from_numpy(copies))


def _sum(values: Tensor) -> int:
    return int(chance.mix(values).sum()) if len(values) else 0
