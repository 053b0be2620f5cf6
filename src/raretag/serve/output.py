"""Predictions into a file, part by part: what was finished before a crash is not computed again.

Each block becomes a file of its own in OUT.partial, complete or not at all; the last step joins them. The folder
remembers what it is made from, and is begun anew if that has changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from raretag.core.errors import UserError
from raretag.serve.predictions import flat

ENDINGS = (".csv", ".parquet", ".jsonl")


class Output:
    def __init__(self, path: Path, made_from: dict[str, Any], *, overwrite: bool) -> None:
        if path.suffix.lower() not in ENDINGS:
            raise UserError(f"'{path.name}' ends in '{path.suffix}'; predictions are written as {', '.join(ENDINGS)}")
        if path.exists() and not overwrite:
            raise UserError(f"'{path}' exists; --overwrite replaces it, --out names another file")
        self.path, self.folder, self.ending = path, path.with_name(path.name + ".partial"), path.suffix.lower()
        marks = json.dumps(made_from, sort_keys=True)
        try:
            if not _same(self.folder / "made_from.json", marks):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
                (self.folder / "made_from.json").write_text(marks, encoding="utf-8")
        except OSError as error:
            raise UserError(f"'{self.folder}' cannot be written: {error.strerror}") from None
        self.parts = sorted(self.folder.glob(f"*{self.ending}"))
        self.done = sum(int(part.stem.partition("-")[2]) for part in self.parts)  # items that need no second look

    def add(self, items: int, table: pa.Table) -> None:
        """A block that stands for so many items, of which some may have been left out."""
        part = self.folder / f"{len(self.parts):09d}-{items}{self.ending}"
        new = part.with_suffix(".new")
        write(table, new, self.ending, header=not self.parts)
        os.replace(new, part)
        self.parts.append(part)

    def finish(self) -> None:
        new = self.folder / "joined.new"
        if self.ending == ".parquet" and self.parts:
            _join_parquet(self.parts, new)
        else:
            with new.open("wb") as whole:
                for part in self.parts:
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, whole)
        os.replace(new, self.path)
        shutil.rmtree(self.folder, ignore_errors=True)


def write(table: pa.Table, path: Path | Any, ending: str, *, header: bool) -> None:
    if ending == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif ending == ".csv":
        pyarrow.csv.write_csv(flat(table), path, pyarrow.csv.WriteOptions(include_header=header))
    else:
        with Path(path).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in objects(table))


def objects(table: pa.Table) -> list[dict[str, Any]]:
    """One object an item: id, labels, and the probabilities by label, which are rounded to what float32 can say."""
    rows = []
    for row in table.to_pylist():
        if "top_labels" in row:
            numbers = dict(zip(row["top_labels"], row["top_probabilities"], strict=True))
        else:
            numbers = {key: value for key, value in row.items() if key not in ("id", "labels")}
        numbers = {name: float(f"{value:.7g}") for name, value in numbers.items()}
        rows.append({"id": row["id"], "labels": row["labels"], "probabilities": numbers})
    return rows


def stream_into(
    output: Output, blocks: Callable[[int], Any], top: int | None, tell: Callable[[int], None] = lambda items: None
) -> None:
    """Write what is missing. `blocks(skip)` gives how many items each block stands for, and its predictions."""
    tell(output.done)
    for items, predictions in blocks(output.done):
        output.add(items, predictions.table(top))
        tell(items)
    output.finish()


def _same(path: Path, marks: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == marks


def _join_parquet(parts: list[Path], path: Path) -> None:
    with pyarrow.parquet.ParquetWriter(path, pyarrow.parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(pyarrow.parquet.read_table(part))
