"""What a model says of some items: probabilities, decisions, and both as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raretag.core.errors import UserError


@dataclass(frozen=True)
class Predictions:
    ids: Sequence[str]
    labels: Sequence[str]
    probabilities: NDArray[np.float32]  # [N, C], calibrated
    chosen: NDArray[np.bool_]  # [N, C], probability > the label's threshold

    def __len__(self) -> int:
        return len(self.ids)

    def chosen_labels(self) -> list[list[str]]:
        """For each item the labels that it is taken to have, the most probable first."""
        rows, labels = np.nonzero(self.chosen)  # only these are sorted: few of 10,000 labels are chosen
        order = np.lexsort((-self.probabilities[rows, labels], rows))
        names = np.asarray(self.labels, dtype=object)[labels[order]]
        cuts = np.searchsorted(rows, np.arange(1, len(self)))
        return [part.tolist() for part in np.split(names, cuts)] if len(self) else []

    def top(self, k: int) -> list[list[tuple[str, float]]]:
        """For each item its k most probable labels with their probabilities, chosen or not."""
        best = self._best(k)
        numbers = np.take_along_axis(self.probabilities, best, axis=1)
        return [
            [(self.labels[label], float(number)) for label, number in zip(*row, strict=True)]
            for row in zip(best, numbers, strict=True)
        ]

    def _best(self, k: int) -> NDArray[np.int64]:
        if not k >= 1:
            raise UserError(f"top is {k}; expected 1 or more labels")
        k = min(k, len(self.labels))
        if k == len(self.labels):
            return np.argsort(-self.probabilities, axis=1, kind="stable")
        some = np.sort(np.argpartition(-self.probabilities, k - 1, axis=1)[:, :k], axis=1)  # [N, k]
        order = np.argsort(-np.take_along_axis(self.probabilities, some, axis=1), axis=1, kind="stable")
        return np.take_along_axis(some, order, axis=1)

    def table(self, top: int | None = None) -> pa.Table:
        """Columns `id` and `labels`, then one column a label; with `top` the k best as two columns of lists instead."""
        columns = {"id": pa.array([str(name) for name in self.ids], pa.string())}
        columns["labels"] = pa.array(self.chosen_labels(), pa.list_(pa.string()))
        if top is not None:
            best = self._best(top)
            names = np.asarray(self.labels, dtype=object)[best]
            columns["top_labels"] = pa.array(names.tolist(), pa.list_(pa.string()))
            numbers = np.take_along_axis(self.probabilities, best, axis=1)
            columns["top_probabilities"] = pa.array(list(numbers), pa.list_(pa.float32()))
            return pa.table(columns)
        numbers = {  # a label may be called as one of our own columns
            f"p({name})" if name in columns else name: pa.array(self.probabilities[:, label])
            for label, name in enumerate(self.labels)
        }
        return pa.table({**columns, **numbers})


def flat(table: pa.Table) -> pa.Table:
    """The same with texts for lists, as CSV needs: joined by `;`, or JSON where a name has a `;` in it."""
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_list(column.type):
            values = column.to_pylist()
            number = pa.types.is_floating(column.type.value_type)
            plain = number or not any(";" in text for row in values for text in row)
            written = [[f"{value:.6g}" for value in row] if number else row for row in values]
            column = pa.array([";".join(row) if plain else json.dumps(row, ensure_ascii=False) for row in written])
        columns[name] = column
    return pa.table(columns)
