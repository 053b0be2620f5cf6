"""Predictions for requests: items as they come in JSON, one worker, a bounded queue, a limit on time.

Images are bytes, never paths: whoever asks a server has no business in its files.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.core.protocols import Inputs
from raretag.data.inputs.images import TROUBLE, Images, opened, square
from raretag.data.inputs.mixed import KIND as MIXED
from raretag.serve.model import Model
from raretag.serve.predictions import Predictions
from raretag.serve.ranking import RankedPredictions, RankingModel
from raretag.serve.readers import Converter, ReadOptions, sentence_encoder


@dataclass(frozen=True)
class Limits:
    """What one request may ask, and how many may wait."""

    items: int = 256  # in one request
    megabytes: float = 32.0  # of one request
    seconds: float = 30.0  # from its arrival to its answer
    waiting: int = 64  # requests, with the one that is being answered

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise UserError(f"the limit {name} is {value}; expected more than 0")

    @property
    def bytes(self) -> int:
        return int(self.megabytes * 1_000_000)


class BusyError(Exception):
    """The queue is full."""


class ImageBytes(Images):
    """Images that are in memory as files are on the disk."""

    def pixels(self, row: int, side: int) -> NDArray[np.uint8]:
        return square(io.BytesIO(self.paths[row]), side, self.fit)  # type: ignore[arg-type]


Found = Predictions | RankedPredictions


class Asked:
    """A model behind a queue. Predictions are those of its `predict` for the same items."""

    def __init__(self, model: Model | RankingModel, limits: Limits) -> None:
        card = model.card
        self.model, self.limits = model, limits
        self.converter = Converter(card.inputs, tuple(card.input_shape), sentence_encoder(card, ReadOptions()))
        self.waiting = 0
        self._worker = ThreadPoolExecutor(1, "predict")  # torch uses all cores for one batch

    @property
    def reads(self) -> str:
        """texts, images, rows of a table, features or tensors."""
        return self.converter.reads

    def items(self, given: Any) -> Any:
        """Items of a request, checked for their kind: texts, lists or objects of numbers, or images in base64."""
        if not isinstance(given, list) or not 1 <= len(given) <= self.limits.items:
            raise UserError(f"expected 'items', a list of 1 to {self.limits.items} {self.reads}")
        if self.reads == "images":
            return [_image_bytes(item, place) for place, item in enumerate(given)]
        if self.converter.kind == MIXED:
            return self._rows(given)
        if self.reads == "texts" and not all(isinstance(item, str) for item in given):
            raise UserError("an item is not a text, but this model reads texts")
        if any(isinstance(item, dict) for item in given) and self.columns:
            return _sparse_rows(given, self.columns)
        return given

    def _rows(self, given: list[Any]) -> list[Any]:
        if "image" in self.converter.description:
            raise UserError("this model reads images in a column beside others, which are not taken over HTTP: predict")
        return list(self.converter.checked(given))

    @property
    def columns(self) -> int:
        """Of a feature vector; 0 if items are none."""
        shape = self.converter.description.get("shape") or self.model.card.input_shape
        return int(shape[0]) if self.reads in ("features", "tensors") and len(shape) == 1 else 0

    async def predict(self, items: Any, top: int = 1) -> Found:
        """Waits for its turn; `BusyError` if too many do, `TimeoutError` after the limit."""
        if self.waiting >= self.limits.waiting:
            raise BusyError
        self.waiting += 1
        deadline = time.monotonic() + self.limits.seconds
        future = asyncio.get_running_loop().run_in_executor(self._worker, self._work, items, deadline, top)
        future.add_done_callback(self._done)  # a request that nobody waits for any more holds its place until it ends
        return await asyncio.wait_for(asyncio.shield(future), self.limits.seconds)

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _done(self, future: asyncio.Future[Found]) -> None:
        self.waiting -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that nobody complains of it

    def _work(self, items: Any, deadline: float, top: int) -> Found:
        if time.monotonic() > deadline:
            raise TimeoutError  # nobody waits for it any more
        ids = [str(place) for place in range(items.shape[0] if sparse.issparse(items) else len(items))]
        return self.model.answer(ids, self._inputs(items, ids), top)

    def _inputs(self, items: Any, ids: list[str]) -> Inputs | Tensor:
        if self.reads == "images":
            for place, content in enumerate(items):
                _check_image(content, place)
            description = self.converter.description
            return ImageBytes(items, size=description["size"], fit=description["fit"])
        return self.converter.convert(self.converter.checked(items), ids).inputs


def _check_image(content: bytes, place: int) -> None:
    try:
        opened(io.BytesIO(content)).close()
    except TROUBLE:
        raise UserError(f"item {place} is not an image that can be read") from None


def _sparse_rows(items: list[Any], columns: int) -> sparse.csr_array:
    """Items such as {"17": 0.5}: the columns that are not 0, counted from 0."""
    data, indices, ends = [], [], [0]
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise UserError(f"item {place} is a {type(item).__name__}, and others are objects; expected one kind")
        for column, value in item.items():
            if not (column.isascii() and column.isdigit() and len(column) < 12 and int(column) < columns):
                raise UserError(f"item {place} has the column {column[:20]!r}; expected '0' to '{columns - 1}'")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 3e38:
                raise UserError(f"item {place}, column {column}: expected a number")
            indices.append(int(column))
            data.append(value)
        ends.append(len(indices))
    found = sparse.csr_array((np.array(data, np.float32), indices, ends), shape=(len(items), columns))
    found.sum_duplicates()  # "7" and "07"
    return found


def _image_bytes(item: Any, place: int) -> bytes:
    if isinstance(item, bytes):
        return item
    content = item.get("image") if isinstance(item, dict) else None
    if not isinstance(content, str):
        raise UserError(f'item {place} is not an image; expected {{"image": "..."}} with the file in base64')
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise UserError(f"item {place}: the image is not base64") from None
