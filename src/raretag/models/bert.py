"""BERT's encoder (Devlin et al., NAACL 2019), read from Hugging Face's files: what sentence vectors need of it.

Other networks come from the package transformers (text_transformer.py). This one needs no package, is faster on short
texts, and is what most small encoders are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from raretag.core.errors import UserError
from raretag.models.layers import Dropout


@dataclass(frozen=True)
class BertShape:
    words: int
    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float
    dropout: float = 0.0

    @staticmethod
    def fits(config: dict[str, Any]) -> bool:
        """Whether a config.json describes such a network, as those of all-MiniLM, BGE and the first E5 and GTE do."""
        plain = config.get("position_embedding_type", "absolute") == "absolute" and not config.get("is_decoder")
        return config.get("model_type") == "bert" and config.get("hidden_act") == "gelu" and plain

    @classmethod
    def of(cls, config: dict[str, Any]) -> BertShape:
        try:
            return cls(
                words=config["vocab_size"],
                width=config["hidden_size"],
                layers=config["num_hidden_layers"],
                heads=config["num_attention_heads"],
                inner=config["intermediate_size"],
                positions=config["max_position_embeddings"],
                epsilon=config.get("layer_norm_eps", 1e-12),
                dropout=config.get("hidden_dropout_prob", 0.1),
            )
        except KeyError as error:
            raise UserError(f"the encoder's config.json lacks {error}") from None


class Bert(nn.Module):
    """BERT's encoder (Devlin et al., NAACL 2019), with the tensor names of Hugging Face's files."""

    def __init__(self, shape: BertShape) -> None:
        super().__init__()
        self.width = shape.width
        self.word = nn.Embedding(shape.words, shape.width)
        self.position = nn.Embedding(shape.positions, shape.width)
        self.segment = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.dropout = Dropout(shape.dropout)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Token numbers [B, T], and which are no padding, to vectors [B, T, D]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x: Tensor = self.dropout(self.norm(self.word(tokens) + self.position(places) + self.segment.weight[0]))
        full = not torch.compiler.is_exporting() and bool(real.all())
        mask = None if full else real[:, None, None, :]  # attention without one is faster
        for layer in self.layers:
            x = layer(x, mask)
        return x

    @classmethod
    def load(cls, files: Sequence[Path], shape: BertShape) -> Bert:
        from safetensors.torch import load_file

        try:
            stored = {_ours(name): tensor.float() for file in files for name, tensor in load_file(file).items()}
            model = cls(shape)
            model.load_state_dict({name: stored[name] for name in model.state_dict()})
        except Exception as error:  # a damaged file, a missing tensor, another shape
            where = files[0].parent if files else "the folder"
            raise UserError(f"'{where}' does not hold the weights that its config.json describes: {error}") from None
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
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=real)  # [B, heads, T, D / heads]
        x = self.norm_attention(x + self.dropout(self.out(mixed.transpose(1, 2).flatten(2))))
        result: Tensor = self.norm_output(x + self.dropout(self.narrow(F.gelu(self.wide(x)))))
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
