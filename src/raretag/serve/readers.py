"""Items to predict: whatever the user gives as data, opened and read block by block, made into tensors as in training.

`open_reader` finds the reader for a table, a folder of images, an array, a list, a DataFrame or a part of a data set.
A `Reader` gives blocks of items; its `Converter` turns raw items into tensors by the card's description of the inputs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from scipy import sparse
from torch import Tensor

from raretag.config.settings import Data, data_of
from raretag.core import registry
from raretag.core.errors import UserError
from raretag.core.protocols import Inputs
from raretag.data.inputs.described import maker_of
from raretag.data.inputs.feature_files import read_features
from raretag.data.inputs.features import not_finite
from raretag.data.inputs.images import Images, in_colour, squared, verify
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.data.inputs.mixed import bad_rows, checked_rows, columns_of
from raretag.data.inputs.text import SIDE_BY_SIDE
from raretag.data.inputs.tokens import KIND as TOKENS
from raretag.data.inputs.tokens import WITH_TOKENS
from raretag.data.table.formats import ENDINGS, open_source
from raretag.data.table.roles import FEATURE_FILES, IMAGE_ENDINGS
from raretag.runs.card import About, RawInputs
from raretag.serve.table_reader import FrameSource, TableReader, choose_columns

PARTS = ("train", "validation", "test")
TEXTS = ("tfidf", "encoder", TOKENS, SIDE_BY_SIDE, WITH_TOKENS)  # kinds of inputs that are made of texts
SPARSE_ENDINGS = (".svm", ".libsvm", ".txt")


@dataclass(frozen=True)
class ReadOptions:
    """How to read the data, where the card does not fix it or the user wants it otherwise."""

    part: str | None = None  # train, validation or test
    columns: Sequence[str] | None = None  # of a table, if they have other names than in training
    folder: Path | None = None  # where image paths of a table begin
    allow_outside: bool = False  # image paths may leave that folder
    bad_items: str = "fail"  # or "skip"
    encoder: Path | None = None  # folder of the sentence encoder, if it has moved

    def __post_init__(self) -> None:
        if self.bad_items not in ("fail", "skip"):
            raise UserError(f"bad_items is {self.bad_items!r}; expected 'fail' or 'skip'")


@dataclass(frozen=True)
class Block:
    """Some items, ready for the network."""

    ids: Sequence[str]
    inputs: Inputs | Tensor


class Reader(Protocol):
    """Items to predict."""

    total: int | None  # items, where that is known before all are read
    remarks: list[str]  # items that were left out, and why; grows while blocks are read

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        """Blocks of up to `rows` items after the first `skip`; with each, how many items of the data it covers.

        A block may hold fewer than it covers: unusable items are left out where the options allow that.
        """
        ...

    def fingerprint(self) -> str:
        """Changes if the items do, as far as a quick look can find out."""
        ...


@dataclass
class Converter:
    """From raw items to tensors, by the card's description of the inputs."""

    description: dict[str, Any]
    shape: tuple[int, ...]  # of one tensor
    encoder: Path | None = None  # folder of a sentence encoder, if the model reads through one
    bad_items: str = "fail"
    remarks: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """images, tfidf, encoder, tokens, side_by_side, with_tokens, mixed, features or tensors."""
        return str(self.description.get("kind", "tensors"))

    @property
    def reads(self) -> str:
        """What an item is, for messages."""
        if self.kind == MIXED:
            return "rows of a table"
        return "texts" if self.kind in TEXTS else self.kind

    def convert(self, raw: Any, ids: Sequence[str]) -> Block:
        """A list, or an array that `checked` has passed, as a block; bad items stop it or are left out."""
        bad = self._bad(raw) if len(ids) else {}
        if bad and self.bad_items == "fail":
            first = "; ".join(f"{ids[row]}: {why}" for row, why in list(bad.items())[:10])
            remedy = "--skip-bad, or bad_items='skip', leaves them out"
            raise UserError(f"{len(bad)} of {len(ids)} items cannot be used ({remedy}): {first}")
        if bad:
            self.remarks += [f"left out: {ids[row]}: {why}" for row, why in bad.items()]
            good = [row for row in range(len(ids)) if row not in bad]
            raw = [raw[row] for row in good] if isinstance(raw, list) else raw[good]
            ids = [ids[row] for row in good]
        return Block(ids, self._inputs(raw) if len(ids) else torch.empty(0, *self.shape))

    def checked(self, raw: Any) -> Any:
        """Python objects in the form that `convert` takes: a list, or an array of the right shape."""
        if self.kind == MIXED:
            return checked_rows(self.description, raw)
        if self.kind in ("tensors", "features"):
            if sparse.issparse(raw):
                raw = sparse.csr_array(raw)
            elif isinstance(raw, Tensor):
                raw = raw.detach().cpu().numpy()
            else:
                raw = _array(raw)
            shape = tuple(self.description["shape"]) if self.kind == "features" else self.shape
            if tuple(raw.shape[1:]) != shape:
                expected = ", ".join(map(str, shape))
                raise UserError(f"the items have shape {list(raw.shape)}; the model reads [N, {expected}]")
            return raw.toarray() if sparse.issparse(raw) and self.kind == "tensors" else raw
        if self.kind == "images" and isinstance(raw, (np.ndarray, Tensor)):
            raw = np.asarray(raw)
            if raw.dtype != np.uint8 or raw.ndim != 4 or raw.shape[3] != 3:
                raise UserError(f"images are {raw.dtype} {list(raw.shape)}; expected uint8 [N, H, W, 3], or paths")
            return raw
        what = "paths of images" if self.kind == "images" else self.reads
        if isinstance(raw, (str, bytes, dict)) or not hasattr(raw, "__len__"):
            raise UserError(f"the items are a {type(raw).__name__}; expected a list of {what}")
        items = [str(item) if isinstance(item, Path) else item for item in raw]
        if not all(isinstance(item, str) for item in items):
            wrong = next(item for item in items if not isinstance(item, str))
            raise UserError(f"an item is a {type(wrong).__name__}; this model reads {what}")
        return items

    def _bad(self, raw: Any) -> dict[int, str]:
        if self.kind == MIXED:
            return bad_rows(self.description, raw)
        if self.kind == "images":
            return verify(raw) if isinstance(raw, list) and isinstance(raw[0], str) else {}
        return {} if isinstance(raw, list) else not_finite(raw)

    def _inputs(self, raw: Any) -> Inputs | Tensor:
        if self.kind == "tensors":
            return torch.from_numpy(np.array(raw, np.float32))  # a copy: it may be a mapped file
        if self.kind == "images" and not isinstance(raw[0], str):
            return PixelArrays(raw, size=self.description["size"], fit=self.description["fit"])
        return self._make(raw)

    @cached_property
    def _make(self) -> Callable[[Any], Inputs]:
        return maker_of(self.description, self.encoder)


def try_inputs(card: About) -> None:
    """Make one item into a tensor as the card describes it; a card of our own making cannot fail here."""
    converter = Converter(card.inputs, tuple(card.input_shape))
    raw: Any
    if converter.kind == "features":
        raw = np.zeros((1, *converter.description["shape"]), np.float32)
    elif converter.kind == "images":
        raw = np.zeros((1, 8, 8, 3), np.uint8)
    elif converter.kind in ("tfidf", TOKENS):
        raw = ["a"]
    elif converter.kind == MIXED and not {"text", "image"} & converter.description.keys():
        raw = [dict.fromkeys(columns_of(converter.description))]
    else:  # tensors need no description, and encoders are looked for when items come
        return
    made = converter.convert(converter.checked(raw), ["0"]).inputs
    tensor = made if isinstance(made, Tensor) else made.batch(torch.tensor([0]))
    if list(tensor.shape[1:]) != card.input_shape:
        raise UserError(
            f"the card describes inputs of shape {list(tensor.shape[1:])} for a model of {card.input_shape}"
        )


def _array(raw: Any) -> Any:
    try:
        found = np.asarray(raw)
    except ValueError as error:
        raise UserError(f"the items are not an array: {error}") from None
    if found.dtype.kind not in "fiub" or found.ndim < 1:
        raise UserError(f"the items are {type(raw).__name__} of {found.dtype}; expected an array of numbers")
    return found


class PixelArrays(Images):
    """Images that are in memory, as uint8 [N, H, W, 3]."""

    def pixels(self, row: int, side: int) -> Any:
        return squared(in_colour(Image.fromarray(np.asarray(self.paths[row]))), side, self.fit)


class ListReader:
    """Items that are all at hand: a list of texts or paths, or an array (which may be mapped from a file)."""

    def __init__(self, raw: Any, ids: Sequence[str] | None, converter: Converter, mark: str = "") -> None:
        self.raw, self.ids, self.converter, self.mark = raw, ids, converter, mark  # without ids: the number of the row
        self.total: int | None = len(raw) if isinstance(raw, list) else int(raw.shape[0])
        self.remarks = converter.remarks

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        assert self.total is not None
        for start in range(skip, self.total, rows):
            stop = min(start + rows, self.total)
            ids = self.ids[start:stop] if self.ids is not None else [str(row + 1) for row in range(start, stop)]
            yield stop - start, self.converter.convert(self.raw[start:stop], ids)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.mark} {self.total}".encode())
        if isinstance(self.raw, list):
            digest.update("\0".join(map(str, self.raw)).encode())
        return digest.hexdigest()


class PartReader:
    """A part of a data set that training can read; its inputs are tensors already."""

    def __init__(self, inputs: Inputs, ids: Sequence[str] | range, mark: str) -> None:
        self.inputs, self.ids, self.mark = inputs, ids, mark
        self.total: int | None = len(inputs)
        self.remarks: list[str] = []

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        from raretag.data.dataset import Selected

        for some in torch.split(torch.arange(skip, len(self.inputs)), rows):
            yield len(some), Block([str(self.ids[row]) for row in some.tolist()], Selected(self.inputs, some))

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.mark} {self.total}".encode()).hexdigest()


def open_reader(data: Any, card: About, options: ReadOptions | None = None) -> Reader:
    """A reader for what `Model.predict` takes as data; None means the run's own data."""
    options = options or ReadOptions()
    named = isinstance(data, str) and data in registry.names("data") and not Path(data).exists()
    if data is None or named or options.part is not None:
        return _part_reader(data, card, options.part or "test")
    encoder = sentence_encoder(card, options)
    converter = Converter(card.inputs, tuple(card.input_shape), encoder, options.bad_items)
    if isinstance(data, (str, os.PathLike)):
        return _path_reader(Path(data).expanduser(), card, options, converter)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__"):
        source = FrameSource(data)
        columns = choose_columns(source, converter, card.columns, options.columns)
        return TableReader(source, converter, columns, options.folder, options.allow_outside)
    raw = converter.checked(data)
    return ListReader(raw, raw if converter.kind == "images" and isinstance(raw, list) else None, converter)


def _path_reader(path: Path, card: About, options: ReadOptions, converter: Converter) -> Reader:
    ending = path.suffix.lower()
    if not path.exists():
        raise UserError(f"'{path}' does not exist, and is not the name of a data set; expected a file, a folder or one")
    if path.is_dir() or ending in IMAGE_ENDINGS:
        if converter.kind != "images":
            found = "folder" if path.is_dir() else "picture"
            raise UserError(f"'{path}' is a {found}, but the model reads {converter.reads}")
        return _image_reader(path, converter)
    if ending in FEATURE_FILES:
        if converter.kind not in ("features", "tensors"):
            raise UserError(f"'{path}' holds numbers, but the model reads {converter.reads}")
        state = path.stat()
        mark = f"{path.resolve()} {state.st_size} {state.st_mtime_ns}"
        return ListReader(converter.checked(read_features(path)), None, converter, mark)
    if ending in SPARSE_ENDINGS:
        from raretag.serve.sparse_reader import SparseFileReader  # few predictions need it

        return SparseFileReader(path, converter)
    if ending not in ENDINGS:
        known = ", ".join((*ENDINGS, *SPARSE_ENDINGS, *FEATURE_FILES))
        raise UserError(f"'{path.name}' ends in '{ending}'; raretag predicts for {known}, folders of images, data sets")
    trained = card.settings.data.options  # a file like that of training may need to be read as that was
    names = ("columns", "separator", "quotes") if ending in (".csv", ".tsv", ".tab") else ()
    source = open_source(path, **{name: trained[name] for name in names if trained.get(name) is not None})
    columns = choose_columns(source, converter, card.columns, options.columns)
    return TableReader(source, converter, columns, options.folder, options.allow_outside)


def _image_reader(path: Path, converter: Converter) -> ListReader:
    """All images below a folder, in the order of their paths, or one image."""
    if path.is_file():
        return ListReader([str(path)], [path.name], converter)
    files = sorted(one for one in path.rglob("*") if one.suffix.lower() in IMAGE_ENDINGS and one.is_file())
    if not files:
        raise UserError(f"the folder '{path}' holds no images ({', '.join(IMAGE_ENDINGS)})")
    return ListReader([str(one) for one in files], [one.relative_to(path).as_posix() for one in files], converter)


def _part_reader(data: Any, card: About, part: str) -> PartReader:
    """A part as training reads it: of the run's own data, or of other data with the same kind of inputs."""
    if part not in PARTS:
        raise UserError(f"there is no part '{part}'; {registry.nearest(part, PARTS)}")
    if data is not None and not isinstance(data, (str, os.PathLike)):
        raise UserError(f"part={part!r} is for data by name or from a file, not for a {type(data).__name__}")
    from raretag.data.sources import load as load_data  # few predictions need it

    trained = card.settings
    settings = trained.data
    if data is not None:
        given = data_of(str(data))
        same = all(trained.data.model_dump().get(key) == value for key, value in given.items())
        settings = trained.data if same else Data(**given, root=trained.data.root)
    with registry.installed_only():
        found = load_data(settings, trained.seed)
    if card.inputs.get("kind") == WITH_TOKENS:
        from raretag.data.inputs.with_tokens import data_with_tokens  # few models need it

        found = data_with_tokens(found)
    raw = RawInputs.of(found)
    if raw.description != card.inputs or list(raw.shape) != card.input_shape:
        raise UserError(
            f"'{settings.name}' makes its inputs differently from the training data, '{trained.data.name}' "
            "(other words, scale, size or columns); give a file or a folder of raw items instead"
        )
    items = found.parts[part]
    if not len(items):
        raise UserError(f"the data has no {part} items; give a file of new items, or name the part train")
    mark = f"{settings.model_dump_json()} {part} {items.labels.fingerprint()}"
    return PartReader(items.inputs, items.labels.ids, mark)


def sentence_encoder(card: About, options: ReadOptions) -> Path | None:
    if options.encoder is not None or card.inputs.get("kind") not in ("encoder", SIDE_BY_SIDE, MIXED, WITH_TOKENS):
        return options.encoder
    folder = card.settings.data.options.get("encoder")
    return None if folder is None else Path(str(folder)).expanduser()
