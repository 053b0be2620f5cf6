"""All rows of a file, each column kept in the smallest form that its role needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raretag.core.errors import UserError
from raretag.data.dataset import part_of
from raretag.data.inputs.mixed import as_word
from raretag.data.table.cells import CellError, is_list, narrowed, numbers, rows_of_numbers, texts
from raretag.data.table.formats import Source
from raretag.data.table.labels import LabelColumns, ListedLabels
from raretag.data.table.roles import Roles


@dataclass
class Contents:
    """What was read of a file."""

    labels: ListedLabels | LabelColumns
    items: int = 0
    words: list[pa.Array] = field(default_factory=list)  # texts, or image paths where there are no texts
    paths: list[pa.Array] = field(default_factory=list)  # image paths beside texts
    categories: dict[str, list[str]] = field(default_factory=dict)
    blocks: list[NDArray[np.float32]] = field(default_factory=list)  # features
    ids: list[str] | None = None
    parts: list[str] | None = None

    def texts(self) -> list[str]:
        return [text for block in self.words for text in block.to_pylist()]

    def image_paths(self) -> list[str]:
        """Where an image and a text belong to an item, else those of `texts`."""
        return [path for block in self.paths or self.words for path in block.to_pylist()]

    def ids_of(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of items; without a column of them, the number of the row, the first being 1."""
        return [str(row + 1) if self.ids is None else self.ids[row] for row in rows.tolist()]


def read_contents(source: Source, roles: Roles, names: Sequence[str] | None) -> Contents:
    """All rows; `names` are all labels, where the user lists them."""
    if roles.classes and names is not None:
        raise UserError("data.names is for a column of lists; columns of 0 and 1 are the names themselves")
    contents = Contents(
        LabelColumns(roles.classes, source.place)
        if roles.labels is None
        else ListedLabels(roles.cells, names, source.place, roles.negatives is not None),
        ids=[] if roles.id else None,
        parts=[] if roles.split else None,
    )
    for batch in source.batches(roles.columns()):
        _add(contents, batch, roles, source)
    if contents.ids is not None:
        _check_ids(contents.ids, source)
    if contents.parts is not None:
        contents.parts = part_of(contents.parts, source.place)
    return contents


def _add(contents: Contents, batch: pa.RecordBatch, roles: Roles, source: Source) -> None:
    if isinstance(contents.labels, LabelColumns):
        contents.labels.add(batch)
    else:
        assert roles.labels is not None
        contents.labels.add(batch.column(roles.labels), batch.column(roles.negatives) if roles.negatives else None)
    if roles.images or roles.text:
        contents.words.append(texts(batch.column(roles.text or roles.images)))
    if roles.images and roles.text:
        contents.paths.append(texts(batch.column(roles.images)))
    for column in roles.categories:
        contents.categories.setdefault(column, []).extend(map(as_word, batch.column(column).to_pylist()))
    if roles.features:
        contents.blocks.append(_features(contents, batch, roles.features, source))
    for wanted, name in ((contents.ids, roles.id), (contents.parts, roles.split)):
        if wanted is not None:
            wanted.extend(texts(batch.column(name)).to_pylist())
    contents.items += batch.num_rows


def feature_block(
    batch: pa.RecordBatch, names: Sequence[str], place: Callable[[int], str], remedy: str = ""
) -> NDArray[np.float32]:
    """The numbers of some columns of a batch, [rows, D]: a column of numbers each, or a column of lists of numbers.

    A cell that is no number is an error with its place, as `place` gives it for a row of the batch.
    """
    arrays = []
    for name in names:
        column = batch.column(name)
        try:
            arrays.append(rows_of_numbers(column) if is_list(column) else numbers(column)[:, None])
        except CellError as error:
            raise UserError(
                f"{place(error.row)}: {str(error.value)[:60]!r} in the feature column {name!r}; "
                f"expected a number{remedy}"
            ) from None
    return narrowed(np.concatenate(arrays, axis=1))


def _features(contents: Contents, batch: pa.RecordBatch, names: list[str], source: Source) -> NDArray[np.float32]:
    def place(row: int) -> str:
        return source.place(contents.items + row)

    block = feature_block(batch, names, place, "; name the right columns with data.features")
    if contents.blocks and block.shape[1] != contents.blocks[0].shape[1]:
        raise UserError(f"{place(0)}: {block.shape[1]} features after rows of {contents.blocks[0].shape[1]}")
    return block


def _check_ids(ids: Sequence[str], source: Source) -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        if not name:
            raise UserError(f"{source.place(row)}: the id is blank; if this column is not an id, set data.id=''")
        if first.setdefault(name, row) != row:
            raise UserError(
                f"{source.place(row)}: the id {name!r} was given before ({source.place(first[name])}); "
                "expected each once; if this column is not an id, set data.id=''"
            )
