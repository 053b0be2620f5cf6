"""What a model predicts for some items: probabilities and decisions, as arrays, as a table, and in a file.

A file is written part by part, so that parts finished before a crash are not computed again. Each block becomes a file
of its own in OUT.partial, complete or not there at all; the last step joins them. The folder remembers what it is made
from, and is begun anew if that has changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.core.files import replacing, write_text
from raretag.core.spreadsheets import guarded

ENDINGS = (".csv", ".parquet", ".jsonl")


@dataclass(frozen=True)
class Predictions:
    """What `Model.predict` returns.

    >>> found = Predictions(["a.jpg"], ["sea", "boat"], np.array([[0.9, 0.25]]), np.array([[True, False]]))
    >>> found.chosen_labels(), found.top(2)
    ([['sea']], [[('sea', 0.9), ('boat', 0.25)]])
    >>> found.table().column_names
    ['id', 'labels', 'sea', 'boat']
    """

    ids: Sequence[str]
    labels: Sequence[str]
    probabilities: NDArray[np.float32]  # [N, C], calibrated
    chosen: NDArray[np.bool_]  # [N, C], probability > the label's threshold

    def __len__(self) -> int:
        return len(self.ids)

    def chosen_labels(self) -> list[list[str]]:
        """The labels that each item is predicted to have, the most probable first."""
        rows, labels = np.nonzero(self.chosen)  # only these are sorted: few of 10,000 labels are chosen
        order = np.lexsort((-self.probabilities[rows, labels], rows))
        names = np.asarray(self.labels, dtype=object)[labels[order]]
        cuts = np.searchsorted(rows, np.arange(1, len(self)))
        return [part.tolist() for part in np.split(names, cuts)] if len(self) else []

    def chosen_pairs(self) -> list[list[tuple[str, float]]]:
        """The same with their probabilities."""
        column = {label: place for place, label in enumerate(self.labels)}
        return [
            [(label, float(p[column[label]])) for label in some]
            for some, p in zip(self.chosen_labels(), self.probabilities, strict=True)
        ]

    def top(self, k: int) -> list[list[tuple[str, float]]]:
        """The `k` most probable labels of each item with their probabilities, chosen or not."""
        best = self._best(k)
        values = np.take_along_axis(self.probabilities, best, axis=1)
        return [
            [(self.labels[label], float(value)) for label, value in zip(*row, strict=True)]
            for row in zip(best, values, strict=True)
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
        """Columns `id` and `labels`, then one column per label; with `top` the k best as two columns of lists."""
        columns = {"id": pa.array([str(name) for name in self.ids], pa.string())}
        columns["labels"] = pa.array(self.chosen_labels(), pa.list_(pa.string()))
        if top is not None:
            best = self._best(top)
            names = np.asarray(self.labels, dtype=object)[best]
            columns["top_labels"] = pa.array(names.tolist(), pa.list_(pa.string()))
            values = np.take_along_axis(self.probabilities, best, axis=1)
            columns["top_probabilities"] = pa.array(list(values), pa.list_(pa.float32()))
            return pa.table(columns)
        by_label = {  # a label may have the name of one of our own columns
            f"p({name})" if name in columns else name: pa.array(self.probabilities[:, label])
            for label, name in enumerate(self.labels)
        }
        return pa.table({**columns, **by_label})


class Tabular(Protocol):
    """Predictions of either kind of model."""

    def table(self, top: int | None = None) -> pa.Table: ...


class PredictionsFile:
    """A file of predictions that is being written; `done` items of it are there from an earlier, stopped attempt."""

    def __init__(self, path: Path, made_from: dict[str, Any], *, overwrite: bool, raw: bool = False) -> None:
        if path.suffix.lower() not in ENDINGS:
            raise UserError(f"'{path.name}' ends in '{path.suffix}'; predictions are written as {', '.join(ENDINGS)}")
        if path.exists() and not overwrite:
            raise UserError(f"'{path}' exists; --overwrite replaces it, --out names another file")
        self.raw = raw
        self.path, self.folder, self.ending = path, path.with_name(path.name + ".partial"), path.suffix.lower()
        marks, file = json.dumps(made_from, sort_keys=True), self.folder / "made_from.json"
        try:
            if self.folder.exists() and not file.is_file() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise UserError(f"'{self.folder}' is there and was not made by raretag; move it, or name another --out")
            if not file.is_file() or file.read_text(encoding="utf-8") != marks:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
                write_text(file, marks)
        except OSError as error:
            raise UserError(f"'{self.folder}' cannot be written: {error.strerror}") from None
        self.parts = sorted(self.folder.glob(f"*{self.ending}"))
        self.done = sum(int(part.stem.partition("-")[2]) for part in self.parts)

    def add(self, items: int, table: pa.Table) -> None:
        """A block that covers so many items, of which some may have been left out."""
        part = self.folder / f"{len(self.parts):09d}-{items}{self.ending}"
        with replacing(part) as new:
            write_table(table, new, self.ending, header=not self.parts, raw=self.raw)
        self.parts.append(part)

    def fill(self, blocks: Iterable[tuple[int, Tabular]], top: int | None = None) -> Iterator[int]:
        """Write the blocks that come after the first `done` items, then the whole file; gives the items of each."""
        for items, predictions in blocks:
            self.add(items, predictions.table(top))
            yield items
        self.finish()

    def finish(self) -> None:
        with replacing(self.path) as new:
            if self.ending == ".parquet" and self.parts:
                _join_parquet(self.parts, new)
            else:
                with new.open("wb") as whole:
                    for part in self.parts:
                        with part.open("rb") as file:
                            shutil.copyfileobj(file, whole)
        shutil.rmtree(self.folder, ignore_errors=True)


def write_table(table: pa.Table, path: Path | IO[bytes], ending: str, *, header: bool, raw: bool = False) -> None:
    """A table of predictions in the format of an ending; CSV may also go to a stream, such as standard output.

    In a CSV, texts that a spreadsheet would run are guarded, unless `raw`.
    """
    import pyarrow.csv
    import pyarrow.parquet

    if ending == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif ending == ".csv":
        cells = flat(table) if raw else harmless(flat(table))
        pyarrow.csv.write_csv(cells, path, pyarrow.csv.WriteOptions(include_header=header))
    else:
        assert isinstance(path, Path)
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in objects(table))


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


def harmless(table: pa.Table) -> pa.Table:
    """The same for a spreadsheet: no text of it is a formula, also not the name of a label in the first line."""
    columns = [
        pa.array([guarded(text) for text in column.to_pylist()], pa.string())
        if pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=[guarded(name) for name in table.column_names])


def objects(table: pa.Table) -> list[dict[str, Any]]:
    """One object per item: id, labels, and the probabilities by label, rounded to the precision of float32."""
    rows = []
    for row in table.to_pylist():
        if "top_labels" in row:
            values = dict(zip(row["top_labels"], row["top_probabilities"], strict=True))
        else:
            values = {key: value for key, value in row.items() if key not in ("id", "labels")}
        values = {name: float(f"{value:.7g}") for name, value in values.items()}
        rows.append({"id": row["id"], "labels": row["labels"], "probabilities": values})
    return rows


def _join_parquet(parts: list[Path], path: Path) -> None:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(path, pyarrow.parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(pyarrow.parquet.read_table(part))
