"""From the contents of a file to inputs: which items can be used, and how each becomes a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError, counted, some
from raretag.data.dataset import Inputs
from raretag.data.files import inside
from raretag.data.fingerprint import content_of
from raretag.data.inputs.feature_files import read_features
from raretag.data.inputs.features import Features, Scale, not_finite, odd_columns
from raretag.data.inputs.images import Augment, Fit, Images, verify
from raretag.data.inputs.mixed import Column, ImageVectors, Mixed, TableColumns
from raretag.data.inputs.representation import Representation, TextOptions
from raretag.data.table.contents import Contents
from raretag.data.table.formats import Source
from raretag.data.table.roles import Roles


@dataclass(frozen=True)
class Preparation:
    """The options of `Table` that say how inputs are made."""

    bad_items: str
    folder: str | None
    allow_outside: bool
    size: int
    fit: Fit
    augment: bool
    text: TextOptions
    standardise: bool
    seed: int
    mixed: bool = True


@dataclass
class Prepared:
    """Rows that can be used, and what makes inputs of them."""

    keep: NDArray[np.int64]  # rows of the file that can be used
    content: Callable[[], Tensor]  # an int64 for each of them, of its path, its text or its features
    finish: Callable[[NDArray[np.int64]], Inputs]  # of the kept rows; may learn from the training ones among them
    remarks: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


def prepare(source: Source, roles: Roles, contents: Contents, how: Preparation) -> Prepared:
    """Images, texts, features, or several of them as one vector, whatever the file has."""
    if how.mixed and is_mixed(roles, contents):
        return _mixed(source, roles, contents, how)
    if roles.images:
        return _images(source, contents, how)
    if roles.text:
        return _texts(contents, how)
    return _features(source, roles, contents, how)


def is_mixed(roles: Roles, contents: Contents) -> bool:
    """Whether columns of several kinds make one vector, or numbers have blanks."""
    listed = any(block.shape[1] != len(roles.features) for block in contents.blocks)
    columns, others = bool(roles.features or roles.categories or roles.feature_file), roles.text or roles.images
    if columns and (roles.categories or others) and (listed or roles.feature_file):
        what = f"the file '{roles.feature_file}'" if roles.feature_file else "a column of lists"
        raise UserError(f"{what} cannot be combined with categories, texts or images; expected a column per number")
    if listed or roles.feature_file:
        return False
    several = bool(roles.text and roles.images) or bool(columns and others)
    return several or bool(roles.categories) or any(np.isnan(block).any() for block in contents.blocks)


def _mixed(source: Source, roles: Roles, contents: Contents, how: Preparation) -> Prepared:
    if roles.text and how.text.representation == "tokens":
        raise UserError(
            "an encoder is trained further on texts alone (train.fine_tune); leave out data.features and data.images"
        )
    numbers = np.concatenate(contents.blocks).astype(np.float64) if contents.blocks else np.zeros((contents.items, 0))
    bad = {int(row): "a feature is infinite" for row in np.flatnonzero(np.isinf(numbers).any(axis=1))}
    paths = _paths(source, contents, how) if roles.images else []
    bad |= verify(paths)
    remark = settle(bad, source.place, contents.items, how.bad_items)
    keep = _without(bad, contents.items)
    columns: dict[str, Column] = {name: numbers[keep, at] for at, name in enumerate(roles.features)}
    columns |= {name: [cells[row] for row in keep.tolist()] for name, cells in contents.categories.items()}
    texts = [contents.texts()[row] for row in keep.tolist()] if roles.text else []
    chosen = Representation(how.text, texts) if roles.text else None
    network = ImageVectors.best(how.fit) if roles.images else None

    def learned(train: NDArray[np.int64]) -> Inputs:
        table = TableColumns.learned(columns, train) if columns else None
        made_text, image = None, None
        if chosen is not None:
            made_text = (str(roles.text), chosen.fit([texts[row] for row in train.tolist()]).inputs(texts))
        if network is not None:
            images = Images([paths[row] for row in keep.tolist()], size=network.size, fit=network.fit)
            image = (str(roles.images), network, network.vectors(images, keep=True))
        return Mixed(None if table is None else (table, table.values(columns)), made_text, image)

    counts = {"number": len(roles.features), "category": len(roles.categories)}
    parts = [counted(number, thing) for thing, number in counts.items() if number]
    parts += ["a text"] * bool(chosen) + ["an image"] * bool(network)
    blank = [name for name, column in columns.items() if isinstance(column, np.ndarray) and np.isnan(column).any()]
    remarks = [f"one vector of {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}"]
    if blank:
        remarks.append(
            f"blank in {some([repr(name) for name in blank], 8)}: replaced by the mean, with a column that marks it"
        )
    if network is not None:
        title = getattr(network.network, "title", network.name)
        remarks.append(f"images: vectors of {title} at {network.size} x {network.size} pixels")
    odd = odd_columns(numbers[keep], roles.features) if len(keep) and not blank and roles.features else []
    notes = {} if chosen is None else {"texts": chosen.notes()}
    remarks += [*odd, *(chosen.remarks() if chosen else []), *filter(None, [remark])]
    words = [cells for cells in columns.values() if isinstance(cells, list)] + [texts] * bool(texts)
    words += [[contents.image_paths()[row] for row in keep.tolist()]] if roles.images else []

    def content() -> Tensor:
        return chance.key(chance.of_rows(numbers[keep]), *map(chance.of_names, words))

    return Prepared(keep, content, learned, remarks, notes)


def _paths(source: Source, contents: Contents, how: Preparation) -> list[str]:
    folder = Path(how.folder).expanduser() if how.folder else source.path.parent
    if not folder.is_dir():
        raise UserError(f"the folder of images '{folder}' does not exist (data.folder)")
    return inside(folder, contents.image_paths(), source.place, allow_outside=how.allow_outside)


def _images(source: Source, contents: Contents, how: Preparation) -> Prepared:
    names, paths = contents.image_paths(), _paths(source, contents, how)
    bad = verify(paths)
    remark = settle(bad, lambda row: names[row], len(paths), how.bad_items)
    keep = _without(bad, len(paths))
    augment = Augment(how.seed) if how.augment else None
    images = Images([paths[row] for row in keep], size=how.size, fit=how.fit, augment=augment)
    summary = f"images: {how.size} x {how.size} pixels"
    summary += ", with random crops, flips and colours in training" if how.augment else ""
    content = partial(chance.of_names, [names[row] for row in keep])
    return Prepared(keep, content, lambda train: images, [summary, *filter(None, [remark])])


def _texts(contents: Contents, how: Preparation) -> Prepared:
    texts = contents.texts()
    keep = np.arange(len(texts))
    blank = sum(not text.strip() for text in texts)
    remarks = [f"{blank} texts are blank"] if blank else []
    chosen = Representation(how.text, texts)

    def learned(train: NDArray[np.int64]) -> Inputs:
        return chosen.fit([texts[row] for row in train.tolist()]).inputs(texts)

    notes = {"texts": chosen.notes()}
    return Prepared(keep, partial(chance.of_names, texts), learned, [*remarks, *chosen.remarks()], notes)


def _features(source: Source, roles: Roles, contents: Contents, how: Preparation) -> Prepared:
    if roles.feature_file is not None:
        path = Path(roles.feature_file).expanduser()
        values: Any = read_features(path if path.exists() else source.path.parent / path)
        if values.shape[0] != contents.items:
            raise UserError(
                f"'{path.name}' has {values.shape[0]} rows and {source.path.name} has {contents.items}; "
                "expected one row of features for each, in the same order"
            )
    else:
        values = np.concatenate(contents.blocks)
    bad = not_finite(values)
    remark = settle(bad, source.place, contents.items, how.bad_items)
    keep = _without(bad, contents.items)
    kept = values[keep] if bad else values  # a mapped file stays mapped
    names = roles.features if len(roles.features) == values.shape[1] else None

    def scaled(train: NDArray[np.int64]) -> Inputs:
        scale = Scale.of(kept, train) if how.standardise and isinstance(kept, np.ndarray) else None
        return Features(kept, names=names, scale=scale)

    dense = isinstance(values, np.ndarray)
    single = values.shape[1:] == (1,)
    summary = f"features: {' x '.join(map(str, values.shape[1:]))} number{'' if single else 's'} per item"
    summary += ", standardised by the training items" if how.standardise and dense else ""
    odd = odd_columns(kept, names) if names and dense and len(keep) else []
    return Prepared(keep, lambda: content_of(Features(kept)), scaled, [summary, *odd, *filter(None, [remark])])


def _without(bad: dict[int, str], items: int) -> NDArray[np.int64]:
    good = np.ones(items, np.bool_)
    good[list(bad)] = False
    return np.flatnonzero(good)


def settle(
    bad: dict[int, str],
    name: Callable[[int], str],
    items: int,
    bad_items: str,
    remedy: str = "data.bad_items=skip leaves them out",
) -> str | None:
    """What becomes of items that cannot be used: an error with the first ten, or a remark that they are left out."""
    if not bad:
        return None
    first = "; ".join(f"{name(row)}: {why}" for row, why in list(bad.items())[:10])
    if bad_items == "fail":
        raise UserError(f"{len(bad)} of {items} items cannot be used ({remedy}): {first}")
    if len(bad) == items:
        raise UserError(f"none of the {items} items can be used: {first}")
    return f"{len(bad)} of {items} items left out, as they cannot be used: {first}"
