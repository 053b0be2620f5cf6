"""Vectors of texts and, behind them, the token numbers of the same texts, for a model that needs both.

A classifier of frozen vectors reads the first columns, an encoder that was trained further reads the last ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from raretag.core.protocols import Inputs
from raretag.data.dataset import DataSet, Items, Joined, Selected
from raretag.data.inputs.encoder import EncodedTexts
from raretag.data.inputs.mixed import Mixed
from raretag.data.inputs.text import SideBySide
from raretag.data.inputs.tokens import WITH_TOKENS, TokenInputs


class WithTokens:
    """[D] of the vectors, then [T] of the tokens as floating-point numbers, which hold them exactly.

    Args:
        vectors: of texts.
        tokens: of the same texts.
        layout: of the encoder that reads the tokens, so that a card is enough to build it.
    """

    def __init__(self, vectors: Any, tokens: TokenInputs, layout: dict[str, Any]) -> None:
        self.vectors, self.tokens, self.layout = vectors, tokens, layout

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return torch.cat([self.vectors.batch(rows, epoch), self.tokens.batch(rows).float()], dim=1)

    def content(self, rows: Tensor) -> Tensor:
        return self.tokens.content(rows)

    def describe(self) -> dict[str, Any]:
        vectors, tokens = self.vectors.describe(), self.tokens.describe()
        return {"kind": WITH_TOKENS, "vectors": vectors, "tokens": tokens, "layout": self.layout}


def encoded_texts(inputs: Any) -> EncodedTexts | None:
    """The vectors that an encoder made, alone or beside words; None if there are none, or columns of other kinds."""
    if isinstance(inputs, Mixed):  # its items are rows of a table, not texts
        return None
    if isinstance(inputs, Selected):
        return encoded_texts(inputs.inputs)
    if isinstance(inputs, Joined):
        return encoded_texts(inputs.first)
    found = inputs.parts.get("encoder") if isinstance(inputs, SideBySide) else inputs
    return found if isinstance(found, EncodedTexts) else None


def data_with_tokens(data: DataSet) -> DataSet:
    """The same data set, with tokens behind the vectors of its texts."""
    train = Items(with_tokens(data.train.inputs), data.train.labels)
    same = data.validation is data.train
    validation = train if same else Items(with_tokens(data.validation.inputs), data.validation.labels)
    return replace(
        data, train=train, validation=validation, test=Items(with_tokens(data.test.inputs), data.test.labels)
    )


def with_tokens(inputs: Any) -> Inputs:
    if isinstance(inputs, Selected):
        return Selected(with_tokens(inputs.inputs), inputs.rows)
    if isinstance(inputs, Joined):
        return Joined(with_tokens(inputs.first), with_tokens(inputs.second))
    found = encoded_texts(inputs)
    assert found is not None
    return WithTokens(inputs, found.encoder.tokenizer.inputs(found.texts), found.encoder.layout.described())
