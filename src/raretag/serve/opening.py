"""What the user calls data, opened: a table, a folder of images, an array, a part of a data set, a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raretag.core import registry as registry
from raretag.core.errors import UserError
from raretag.data.inputs.features import read_features
from raretag.data.table.formats import ENDINGS, open_source
from raretag.data.table.roles import FEATURE_FILES, IMAGE_ENDINGS
from raretag.engine.build import input_shape, raw_inputs
from raretag.engine.card import config_of
from raretag.engine.config import Config, Data, data_of
from raretag.engine.sources import load as load_data
from raretag.serve.items import Listed, Maker, Part, Stream
from raretag.serve.rows import Frame, Rows, choose

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Opening:
    """How to read the data, where the card does not say or the user wants it otherwise."""

    part: str | None = None
    columns: Sequence[str] | None = None
    folder: Path | None = None  # of the images that a table names
    allow_outside: bool = False
    bad_items: str = "fail"
    encoder: Path | None = None


def open_items(data: Any, card: dict[str, Any], how: Opening) -> tuple[Stream, Maker]:
    if how.bad_items not in ("fail", "skip"):
        raise UserError(f"bad_items is {how.bad_items!r}; expected 'fail' or 'skip'")
    make = Maker(card["inputs"], tuple(card["input_shape"]), sentence_encoder(card, how), how.bad_items)
    named = isinstance(data, str) and data in registry.names("data") and not Path(data).exists()
    if data is None or named or how.part is not None:
        return open_part(data, card, how.part or "test"), make
    if isinstance(data, (str, os.PathLike)):
        return open_path(Path(data).expanduser(), card, how, make), make
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__"):
        frame = Frame(data)
        return Rows(frame, make, choose(frame, make, card["columns"], how.columns), how.folder, how.allow_outside), make
    raw = make.check(data)
    paths = make.kind == "images" and isinstance(raw, list)
    return Listed(raw, raw if paths else _number, make), make


def open_path(path: Path, card: dict[str, Any], how: Opening, make: Maker) -> Stream:
    ending = path.suffix.lower()
    if not path.exists():
        raise UserError(f"'{path}' does not exist, and no data set is called so; expected a file, a folder or a name")
    if path.is_dir() or ending in IMAGE_ENDINGS:
        if make.kind != "images":
            raise UserError(
                f"'{path}' is a {'folder' if path.is_dir() else 'picture'}, but the model reads {make.reads}"
            )
        return open_images(path, make)
    if ending in FEATURE_FILES:
        if make.kind not in ("features", "tensors"):
            raise UserError(f"'{path}' holds numbers, but the model reads {make.reads}")
        state = path.stat()
        mark = f"{path.resolve()} {state.st_size} {state.st_mtime_ns}"
        return Listed(make.check(read_features(path)), _number, make, mark)
    if ending not in ENDINGS:
        known = ", ".join((*ENDINGS, *FEATURE_FILES))
        raise UserError(f"'{path.name}' ends in '{ending}'; raretag predicts for {known}, folders of images, data sets")
    options = config_of(card).data.options  # a file like that of training may need to be read as that was
    told = {key: options[key] for key in ("columns", "separator", "quotes") if ending in (".csv", ".tsv", ".tab")
            and options.get(key) is not None}  # fmt: skip
    source = open_source(path, **told)
    return Rows(source, make, choose(source, make, card["columns"], how.columns), how.folder, how.allow_outside)


def open_images(path: Path, make: Maker) -> Listed:
    """All images below a folder, in the order of their paths, or one image."""
    if path.is_file():
        return Listed([str(path)], [path.name], make)
    found = sorted(one for one in path.rglob("*") if one.suffix.lower() in IMAGE_ENDINGS and one.is_file())
    if not found:
        raise UserError(f"the folder '{path}' holds no images ({', '.join(IMAGE_ENDINGS)})")
    return Listed([str(one) for one in found], [one.relative_to(path).as_posix() for one in found], make)


def open_part(data: Any, card: dict[str, Any], part: str) -> Part:
    """A part as training reads it: of the run's own data, or of other data with the same kind of inputs."""
    if part not in PARTS:
        raise UserError(f"there is no part '{part}'; {registry.nearest(part, PARTS)}")
    if data is not None and not isinstance(data, (str, os.PathLike)):
        raise UserError(f"part={part!r} is for data by name or from a file, not for a {type(data).__name__}")
    config = config_of(card)
    settings = settings_of(config, None if data is None else str(data))
    found = load_data(settings, config.seed)
    raw = raw_inputs(found)
    if raw.description != card["inputs"] or list(input_shape(found)) != card["input_shape"]:
        raise UserError(
            f"'{settings.name}' makes its inputs in another way than the data of training, '{config.data.name}' "
            "(other words, scale, size or columns); give a file or a folder of raw items instead"
        )
    items = getattr(found, part)
    return Part(items.inputs, items.labels.ids, f"{settings.model_dump_json()} {part} {items.labels.fingerprint()}")


def settings_of(config: Config, word: str | None) -> Data:
    if word is None:
        return config.data
    told = data_of(word)
    same = all(config.data.model_dump().get(key) == value for key, value in told.items())
    return config.data if same else Data(**told, root=config.data.root)


def sentence_encoder(card: dict[str, Any], how: Opening) -> Path | None:
    if how.encoder is not None or card["inputs"].get("kind") != "encoder":
        return how.encoder
    told = config_of(card).data.options.get("encoder")
    return None if told is None else Path(str(told)).expanduser()


def _number(row: int) -> str:
    return str(row + 1)
