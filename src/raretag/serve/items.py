"""Items to predict, block by block: each with its id, made into tensors as the training items were."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from scipy import sparse
from torch import Tensor

from raretag.core.errors import UserError
from raretag.data.dataset import Inputs, Selected, TensorInputs
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.features import not_finite
from raretag.data.inputs.images import Images, in_colour, squared, verify
from raretag.data.table.inputs import settle


@dataclass(frozen=True)
class Block:
    ids: Sequence[str]
    inputs: Inputs


class Stream(Protocol):
    total: int | None  # items, where that is known before all are read

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        """Blocks of up to `rows` items after the first `skip`; with each, how many items it stands for.

        A block may hold fewer: items that cannot be used are left out if the user said so.
        """
        ...

    def fingerprint(self) -> str:
        """Changes if the items do, as far as a quick look can tell."""
        ...


@dataclass
class Maker:
    """From raw items to tensors, by the card's description of the inputs."""

    description: dict[str, Any]
    shape: tuple[int, ...]  # of one tensor
    encoder: Path | None = None  # folder of a sentence encoder, if the model reads through one
    bad_items: str = "fail"
    remarks: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.description.get("kind", "tensors"))

    @property
    def reads(self) -> str:
        """For people: what an item is."""
        return "texts" if self.kind in ("tfidf", "encoder") else self.kind

    def __call__(self, raw: Any, ids: Sequence[str]) -> Block:
        bad = self._trouble(raw) if len(ids) else {}
        if bad and self.bad_items == "fail":
            settle(bad, lambda row: str(ids[row]), len(ids), "fail", "--skip-bad, or bad_items='skip', leaves them out")
        if bad:
            self.remarks += [f"left out: {ids[row]}: {why}" for row, why in bad.items()]
            good = [row for row in range(len(ids)) if row not in bad]
            raw = [raw[row] for row in good] if isinstance(raw, list) else raw[good]
            ids = [ids[row] for row in good]
        return Block(ids, self.inputs(raw) if len(ids) else TensorInputs(torch.empty(0, *self.shape)))

    def _trouble(self, raw: Any) -> dict[int, str]:
        if self.kind == "images":
            return verify(raw) if isinstance(raw, list) and isinstance(raw[0], str) else {}
        return {} if isinstance(raw, list) else not_finite(raw)

    def inputs(self, raw: Any) -> Inputs:
        if self.kind == "tensors":
            return TensorInputs(torch.from_numpy(np.array(raw, np.float32)))  # a copy: it may be a mapped file
        if self.kind == "images" and not isinstance(raw[0], str):
            return Pictures(raw, size=self.description["size"], fit=self.description["fit"])
        return inputs_from(self.description, raw, encoder=self.encoder)

    def check(self, raw: Any) -> Any:
        """Objects of Python as this model can take them: a list, or an array of the right shape."""
        if self.kind in ("tensors", "features"):
            if sparse.issparse(raw):
                raw = sparse.csr_array(raw)
            elif isinstance(raw, Tensor):
                raw = raw.detach().cpu().numpy()
            else:
                raw = _array(raw)
            shape = tuple(self.description["shape"]) if self.kind == "features" else self.shape
            if tuple(raw.shape[1:]) != shape:
                raise UserError(f"the items have shape {list(raw.shape)}; the model reads [N, {_commas(shape)}]")
            return raw.toarray() if sparse.issparse(raw) and self.kind == "tensors" else raw
        if self.kind == "images" and isinstance(raw, (np.ndarray, Tensor)):
            raw = np.asarray(raw)
            if raw.dtype != np.uint8 or raw.ndim != 4 or raw.shape[3] != 3:
                raise UserError(f"images are {raw.dtype} {list(raw.shape)}; expected uint8 [N, H, W, 3], or paths")
            return raw
        what = "paths of images" if self.kind == "images" else self.reads
        if isinstance(raw, (str, bytes, dict)) or not hasattr(raw, "__len__"):
            raise UserError(f"the items are a {type(raw).__name__}; expected a list of {what}")
        listed = [str(item) if isinstance(item, Path) else item for item in raw]
        if not all(isinstance(item, str) for item in listed):
            wrong = next(item for item in listed if not isinstance(item, str))
            raise UserError(f"an item is a {type(wrong).__name__}; this model reads {what}")
        return listed


def _array(raw: Any) -> Any:
    try:
        found = np.asarray(raw)
    except ValueError as error:
        raise UserError(f"the items are no array: {error}") from None
    if found.dtype.kind not in "fiub" or found.ndim < 1:
        raise UserError(f"the items are {type(raw).__name__} of {found.dtype}; expected an array of numbers")
    return found


def _commas(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))


class Pictures(Images):
    """Images that are in memory, as uint8 [N, H, W, 3]."""

    def pixels(self, row: int, side: int) -> Any:
        return squared(in_colour(Image.fromarray(np.asarray(self.paths[row]))), side, self.fit)


class Listed:
    """Items that are all at hand: a list of texts or paths, or an array (which may be mapped from a file)."""

    def __init__(self, raw: Any, ids: Sequence[str] | Callable[[int], str], make: Maker, mark: str = "") -> None:
        self.raw, self.make, self.mark = raw, make, mark
        self.ids = ids
        self.total: int | None = int(raw.shape[0]) if hasattr(raw, "shape") else len(raw)

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        assert self.total is not None
        for start in range(skip, self.total, rows):
            stop = min(start + rows, self.total)
            ids = [self.ids(row) if callable(self.ids) else self.ids[row] for row in range(start, stop)]
            yield stop - start, self.make(self.raw[start:stop], ids)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.mark} {self.total}".encode())
        if isinstance(self.raw, list):
            digest.update("\0".join(map(str, self.raw)).encode())
        return digest.hexdigest()


class Part:
    """A part of a data set that training can read; its inputs are made already."""

    def __init__(self, inputs: Inputs, ids: Sequence[str], mark: str) -> None:
        self.inputs, self.ids, self.mark = inputs, ids, mark
        self.total: int | None = len(inputs)

    def blocks(self, rows: int, skip: int) -> Iterator[tuple[int, Block]]:
        for some in torch.arange(skip, len(self.inputs)).split(rows):
            yield len(some), Block([str(self.ids[row]) for row in some.tolist()], Selected(self.inputs, some))

    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.mark} {self.total}".encode()).hexdigest()
