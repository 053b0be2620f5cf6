"""Scores from outside (`data.prior`): of another model, of rules, of similarities, for some items and some labels.

A file has a row for each score and the columns `item`, `label` and `score`; items by the ids of the data, labels by
their names. It may leave out items and labels, and hold others, which are not used. What the scores mean is found out
from the labels (metrics/outside.py): probabilities, or any numbers that are higher where a label is likelier.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.table.formats import open_source
from raretag.labels.store import LabelStore

COLUMNS = ("item", "label", "score")


class Prior:
    """Scores by the id of an item and the name of a label.

    >>> prior = Prior.of_array([[0.9, 0.2], [float("nan"), 0.7]], items=["a", "b"], labels=["cat", "dog"])
    >>> prior.scores(["b", "c"], ["dog", "cat"])
    tensor([[0.7000,    nan],
            [   nan,    nan]])
    """

    def __init__(self, items: Sequence[str], labels: Sequence[str], scores: sparse.csr_array, name: str) -> None:
        self.rows = {str(item): row for row, item in enumerate(items)}
        self.columns = {str(label): column for column, label in enumerate(labels)}
        self.stored, self.name = scores, name  # a score of 0 is stored too

    @classmethod
    def read(cls, path: Path | str) -> Prior:
        """From a CSV, TSV, JSON lines or Parquet file."""
        source = open_source(Path(path).expanduser())
        missing = [name for name in COLUMNS if name not in source.columns]
        if missing:
            raise UserError(
                f"{source.path.name} has the columns {', '.join(source.columns[:8])}; expected item, label and score "
                f"(no '{missing[0]}' among them): a row for each score"
            )
        table = pa.Table.from_batches(list(source.batches(COLUMNS)))
        items, labels = (table[name].cast(pa.string()).combine_chunks().dictionary_encode() for name in COLUMNS[:2])
        values = _numbers(table["score"], source.path.name)
        if items.null_count or labels.null_count:
            raise UserError(f"{source.path.name}: a row has no item or no label; expected both in each row")
        shape = (len(items.dictionary), len(labels.dictionary))
        row, column = (one.indices.to_numpy(zero_copy_only=False).astype(np.int64) for one in (items, labels))
        flat = row * shape[1] + column
        if len(np.unique(flat)) < len(flat):
            order = np.argsort(flat, kind="stable")
            at = int(order[1:][np.diff(flat[order]) == 0][0])
            raise UserError(
                f"{source.place(at)}: item '{items[at].as_py()}' has a second score for '{labels[at].as_py()}'; "
                "expected one for each item and label"
            )
        stored = sparse.csr_array((values, (row, column)), shape=shape)
        return cls(items.dictionary.to_pylist(), labels.dictionary.to_pylist(), stored, source.path.name)

    @classmethod
    def of_array(cls, scores: Any, items: Sequence[Any], labels: Sequence[str]) -> Prior:
        """From [items, labels] numbers, NaN where there is no score."""
        values = np.asarray(scores, np.float64)
        if values.shape != (len(items), len(labels)):
            raise UserError(
                f"prior has shape {values.shape}; expected one score for each of {len(items)} items and "
                f"{len(labels)} labels, NaN where there is none"
            )
        row, column = np.nonzero(~np.isnan(values))
        stored = sparse.csr_array((values[row, column], (row, column)), shape=values.shape)
        return cls([str(item) for item in items], labels, stored, "an array")

    @classmethod
    def given(cls, prior: Any, labels: LabelStore) -> Prior:
        """A prior, a file of one, or an array for these items and labels."""
        if isinstance(prior, Prior):
            return prior
        if isinstance(prior, (str, os.PathLike)):
            return cls.read(os.fspath(prior))
        return cls.of_array(prior, list(labels.ids), labels.names)

    def scores(self, items: Sequence[Any], labels: Sequence[str]) -> Tensor:
        """float32 [items, labels], NaN where there is none."""
        found = torch.full((len(items), len(labels)), torch.nan)
        column = np.full(max(1, self.stored.shape[1]), -1)
        for at, label in enumerate(labels):
            if label in self.columns:
                column[self.columns[label]] = at
        rows = [self.rows.get(str(item), -1) for item in items]
        here = [at for at, row in enumerate(rows) if row >= 0]
        some = self.stored[[rows[at] for at in here]].tocoo()
        into, label_of = torch.tensor(here, dtype=torch.int64)[some.row], torch.from_numpy(column[some.col])
        kept = label_of >= 0
        found[into[kept], label_of[kept]] = torch.from_numpy(some.data).float()[kept]
        return found

    def of(self, labels: LabelStore) -> Tensor:
        """The same for the items of a store."""
        return self.scores(labels.ids, labels.names)

    def remark(self, labels: LabelStore) -> str:
        """How much of the training items it covers; an error if that is nothing, as names will have been mistaken."""
        there = ~self.of(labels).isnan()
        if not there.any():
            what, known, own = (
                ("item", self.rows, labels.ids)
                if not _common(self.rows, labels.ids)
                else ("label", self.columns, labels.names)
            )
            first = next(iter(known), "")
            raise UserError(
                f"the prior ({self.name}) has no score of a training {what}: its {what}s are such as '{first}', those "
                f"of the data such as '{own[0]}'; expected the same names in both"
            )
        items, columns = float(there.any(1).float().mean()), int(there.any(0).sum())
        of = f"{items:.0%} of the training items and {columns} of {labels.labels} labels"
        return f"prior: {self.name} has scores for {of}"


def _common(known: dict[str, int], names: Sequence[Any]) -> bool:
    return any(str(name) in known for name in names)


def _numbers(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    try:
        values: NDArray[np.float64] = pc.cast(column, pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise UserError(f"{name}: a score is not a number ({' '.join(str(error).split())[:80]})") from None
    if not np.isfinite(values).all():
        raise UserError(f"{name}: a score is blank, NaN or infinite; leave out rows without a score")
    return values
