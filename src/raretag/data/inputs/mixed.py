"""The columns of a table as one vector: numbers with blanks, categories, a text, an image.

    number      (x - mean) / deviation of the training items, at most 5 away from 0; blank: 0, and a 1 beside it in a
                column of its own where blanks occurred in training
    category    a 1 in the column of its value: the 50 most frequent values that occur twice or more; any other value,
                blank or never seen, is none of them
    text        as texts alone are (representation.py): word weights, pieces of words, vectors of an encoder
    image       the vector of a frozen image network, of length 1

Numbers and categories alone stand as they are. Beside a text or an image they are one part among others: divided by the
square root of how many they are, so that each part has about length 1, and the whole row is then given length 1
(text.py). What was learned is plain JSON. An item is a dictionary, from the name of a column to its value.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance, registry
from raretag.core.errors import UserError
from raretag.core.files import cache_folder, replacing
from raretag.core.protocols import Inputs
from raretag.data.inputs.features import Features
from raretag.data.inputs.images import Fit, Images, verify
from raretag.data.inputs.text import SideBySide, Texts
from raretag.data.table.cells import BLANKS, written

KIND = "mixed"
VALUES = 50  # of a category that have a column
LIMIT = 5.0  # deviations: one wild number must not outweigh all other columns
IMAGE_NETWORK = "efficientnet_lite"
OPTIONS = {"variant", "pool", "flip"}
_AT_ONCE = 32  # images
Column = NDArray[np.float64] | list[str]  # numbers, NaN where blank; or categories, '' where blank


class TableColumns:
    """Numbers and categories as rows of one array, by what `learned` found in the training items."""

    def __init__(self, described: Sequence[Mapping[str, Any]]) -> None:
        self.described = [dict(one) for one in described]

    @classmethod
    def learned(cls, columns: Mapping[str, Column], train: NDArray[np.int64]) -> TableColumns:
        return cls([_learned(name, column, train) for name, column in columns.items()])

    def values(self, columns: Mapping[str, Column]) -> NDArray[np.float32]:
        """[N, D]."""
        blocks = [_filled(one, columns[one["column"]]) for one in self.described]
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def of(self, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float32]:
        """The same for items one by one, whose cells may be of any type."""
        columns: dict[str, Column] = {}
        for one in self.described:
            cells = [row.get(one["column"]) for row in rows]
            numeric = one["kind"] == "number"
            columns[one["column"]] = (
                np.array([as_number(cell) for cell in cells]) if numeric else [*map(as_word, cells)]
            )
        return self.values(columns)


def _learned(name: str, column: Column, train: NDArray[np.int64]) -> dict[str, Any]:
    if isinstance(column, list):
        counts = Counter(column[row] for row in train.tolist())
        often = sorted((value for value in counts if value and counts[value] > 1), key=lambda v: (-counts[v], v))
        return {"column": name, "kind": "category", "values": often[:VALUES]}
    seen = column[train]
    known = seen[~np.isnan(seen)]
    mean, deviation = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
    steady = deviation <= 1e-12 * max(abs(mean), 1.0)
    blanks = bool(np.isnan(seen).any()) and len(known) > 0
    return {"column": name, "kind": "number", "mean": mean, "std": 0.0 if steady else deviation, "blanks": blanks}


def _filled(one: Mapping[str, Any], column: Column) -> NDArray[np.float64]:
    if one["kind"] == "category":
        place = {value: at for at, value in enumerate(one["values"])}
        block = np.zeros((len(column), len(place)))
        for row, value in enumerate(column):
            if value in place:
                block[row, place[value]] = 1.0
        return block
    with np.errstate(over="ignore"):
        numbers = np.asarray(column, np.float32).astype(np.float64)  # as precise as a file of numbers is read
    blank = np.isnan(numbers)
    away = np.where(blank, 0.0, numbers - one["mean"]) / (one["std"] or np.inf)
    block = np.clip(away, -LIMIT, LIMIT)[:, None]
    return np.concatenate([block, blank[:, None]], axis=1) if one["blanks"] else block


def as_number(cell: Any) -> float:
    """NaN for a blank; an error for what is no number."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in BLANKS):
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise UserError(f"{str(cell)[:60]!r} is not a number") from None


def as_word(cell: Any) -> str:
    """A category as a text; whole numbers are written without a point, blanks are ''."""
    if cell is None:
        return ""
    word = written(cell).strip()
    return "" if word.lower() in BLANKS else word


class ImageVectors:
    """Vectors of a frozen image network, of length 1; computed once, and kept by the content of the files.

    Args:
        name: of a model that takes images; its own options and weights are the usual ones.
        size, fit: how an image becomes a square of pixels (images.py).
        sha256: of the weights, which must be these.
        options: of the model: `variant`, `pool` and `flip`.
    """

    def __init__(
        self,
        name: str = IMAGE_NETWORK,
        size: int = 224,
        fit: Fit = "resize",
        sha256: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        from raretag.models.pretrained import digest_of

        options = dict(options or {})
        if name not in registry.names("models") or not options.keys() <= OPTIONS:  # a card may come from a stranger
            raise UserError(f"there is no image network {name[:60]!r}; expected {IMAGE_NETWORK}")
        self.name, self.size, self.fit, self.options = name, size, fit, options
        if "frozen" in registry.parameters(registry.find("models", name)):
            options = {"frozen": True, **options}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network: Any = registry.build(
                "models", name, options, kind=torch.nn.Module, channels=3, size=3 * size * size
            )
        self.network = network.eval()
        self.sha256 = digest_of(self.network)
        if sha256 and sha256 != self.sha256:
            raise UserError(f"the image network '{name}' has other weights here than in training")

    @classmethod
    def best(cls, fit: Fit) -> ImageVectors:
        """The best network that is installed, as for photographs alone (docs/benchmarks/images.md)."""
        from raretag.models.pretrained import LITE_SIZES, EfficientnetLite

        variant = next((one for one in sorted(LITE_SIZES)[::-1] if EfficientnetLite.is_here({"variant": one})), 0)
        options = {"variant": variant, "pool": "mean_and_max", "flip": True}
        return cls(size=LITE_SIZES[variant], fit=fit, options=options)

    def vectors(self, images: Images, *, keep: bool = False) -> NDArray[np.float32]:
        """[N, D]; with `keep`, from the cache if these images were seen before."""
        if not keep:
            return self._computed(images)
        digest = hashlib.sha256(f"{self.sha256} {self.size} {self.fit}".encode())
        for path in images.paths:
            digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
        file = cache_folder() / f"{digest.hexdigest()}.images.npy"
        try:
            found: NDArray[np.float32] = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            found = self._computed(images)
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as new, new.open("wb") as out:
                np.save(out, found, allow_pickle=False)
        return found

    @torch.inference_mode()
    def _computed(self, images: Images) -> NDArray[np.float32]:
        parts = [self.network(images.batch(rows)).float() for rows in torch.arange(len(images)).split(_AT_ONCE)]
        return np.asarray(torch.nn.functional.normalize(torch.cat(parts), dim=1))

    def describe(self) -> dict[str, Any]:
        how = {"name": self.name, "size": self.size, "fit": self.fit, "sha256": self.sha256}
        return how | ({"options": self.options} if self.options else {})


class Mixed(SideBySide):
    """Vectors of the columns of a table, in named blocks of columns."""

    def __init__(
        self,
        columns: tuple[TableColumns, NDArray[np.float32]] | None,
        text: tuple[str, Inputs] | None = None,
        image: tuple[str, ImageVectors, NDArray[np.float32]] | None = None,
    ) -> None:
        self.columns, self.text, self.image = columns, text, image
        parts: dict[str, Any] = {}
        if columns is not None:
            alone = text is None and image is None
            parts["columns"] = Features(columns[1] if alone else columns[1] / max(1, len(columns[0].described)) ** 0.5)
        if text is not None:
            parts |= text[1].parts if isinstance(text[1], SideBySide) else {"text": text[1]}
        if image is not None:
            parts["image"] = Features(image[2])
        super().__init__(parts, dict.fromkeys(parts, 1.0))
        if len(parts) == 1 and columns is not None:
            self.factor = np.ones(len(columns[1]))

    def content(self, rows: Tensor) -> Tensor:
        return chance.key(*(part.content(rows) for part in self.parts.values()))

    @property
    def texts(self) -> Sequence[str]:
        made = None if self.text is None else self.text[1]
        return made.texts if isinstance(made, Texts | SideBySide) else [""] * len(self)

    def describe(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": KIND, "columns": None if self.columns is None else self.columns[0].described}
        if self.text is not None:
            inputs: Any = self.text[1]
            found["text"] = {"column": self.text[0], "inputs": inputs.describe()}
        if self.image is not None:
            found["image"] = {"column": self.image[0], **self.image[1].describe()}
        return found if self.text or self.image else found | {"scale": "columns"}


def columns_of(description: Mapping[str, Any]) -> list[str]:
    """The columns of a table that a description reads."""
    found = [one["column"] for one in description["columns"] or ()]
    return [*found, *(description[part]["column"] for part in ("text", "image") if part in description)]


def checked_rows(description: Mapping[str, Any], raw: Any) -> list[Mapping[str, Any]]:
    """Items as they come from Python or in a request: dictionaries that have every column, blank as it may be."""
    wanted = columns_of(description)
    if isinstance(raw, (str, bytes, Mapping)) or not all(isinstance(row, Mapping) for row in raw):
        raise UserError(f"an item is not a row of a table; expected an object with {', '.join(map(repr, wanted))}")
    for place, row in enumerate(raw):
        missing = [name for name in wanted if name not in row]
        if missing:
            raise UserError(f"item {place} lacks {missing[0]!r}; the model reads {', '.join(map(repr, wanted))}")
    return list(raw)


def bad_rows(description: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Rows that cannot be used, and why."""
    bad: dict[int, str] = {}
    numbers = [one["column"] for one in description["columns"] or () if one["kind"] == "number"]
    for place, row in enumerate(rows):
        trouble = next(filter(None, (_trouble(row[name]) for name in numbers)), None)
        if trouble is not None:
            bad[place] = trouble
    if "image" in description:
        bad |= verify([str(row[description["image"]["column"]]) for row in rows])
    return bad


def _trouble(cell: Any) -> str | None:
    try:
        return f"{cell} is infinite" if abs(as_number(cell)) > np.finfo(np.float32).max else None
    except UserError as error:
        return str(error)


def mixed_maker(description: Mapping[str, Any], texts: Callable[[Any], Inputs] | None) -> Callable[[Any], Mixed]:
    """Makes inputs of new items as of the training items; `texts` does so for the text alone."""
    columns = None if description["columns"] is None else TableColumns(description["columns"])
    image = None
    if "image" in description:
        how = {name: value for name, value in description["image"].items() if name != "column"}
        image = (description["image"]["column"], ImageVectors(**how))

    def make(rows: Sequence[Mapping[str, Any]]) -> Mixed:
        made_text = None
        if texts is not None:
            column = description["text"]["column"]
            made_text = (column, texts([as_text(row.get(column)) for row in rows]))
        pictures = None
        if image is not None:
            paths = [row[image[0]] for row in rows]
            images = Images(paths, size=image[1].size, fit=image[1].fit)
            pictures = (image[0], image[1], image[1].vectors(images))
        return Mixed(None if columns is None else (columns, columns.of(rows)), made_text, pictures)

    return make


def as_text(cell: Any) -> str:
    return cell if isinstance(cell, str) else as_word(cell)
