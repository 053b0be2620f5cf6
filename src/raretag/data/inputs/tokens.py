"""Texts as token numbers: what a text encoder reads, by the rules of its own tokenizer.json.

Token numbers are also inputs in their own right, for an encoder that is trained further (`train.fine_tune`): a row of
`longest` numbers per text, -1 after its last token. The tokenizer then ships inside the card, so that the run folder is
enough to predict.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError

KIND = "tokens"
WITH_TOKENS = "with_tokens"  # vectors and tokens of the same texts (with_tokens.py)
_AT_ONCE = 4096  # texts whose tokens are made together


class Tokenizer:
    """Token numbers of texts.

    Args:
        rules: the content of a tokenizer.json.
        longest: tokens of a text, at most, with those that mark its ends.
        prompt: what stands before every text.
        lower: texts are lower-cased first.
        static: for a table of token vectors, which knows no marks of the ends and nothing of unknown tokens.
    """

    def __init__(
        self, rules: str, longest: int, *, prompt: str = "", lower: bool = False, static: bool = False
    ) -> None:
        try:
            from tokenizers import Tokenizer as Theirs
        except ImportError:
            raise UserError("a sentence encoder needs the package tokenizers: pip install 'raretag[text]'") from None
        self.rules, self.longest, self.prompt, self.lower, self.static = rules, longest, prompt, lower, static
        try:
            self.tokenizer = Theirs.from_str(rules)
        except Exception as error:  # tokenizers raises bare Exceptions
            raise UserError(f"the encoder's tokenizer.json is damaged: {error}") from None
        self.tokenizer.enable_truncation(longest)
        self.tokenizer.no_padding()
        self.unknown = _unknown(rules) if static else None

    def numbers(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        found: list[NDArray[np.int32]] = []
        more = {"add_special_tokens": False} if self.static else {}
        for start in range(0, len(texts), _AT_ONCE):
            some = [self.prompt + (text.lower() if self.lower else text) for text in texts[start : start + _AT_ONCE]]
            found += [np.asarray(coded.ids, np.int32) for coded in self.tokenizer.encode_batch(some, **more)]
        return found if self.unknown is None else [row[row != self.unknown] for row in found]

    def options(self) -> dict[str, Any]:
        """Of the constructor, without the rules, where they are not the usual ones."""
        named = {"prompt": self.prompt, "lower": self.lower, "static": self.static}
        return {"longest": self.longest, **{name: value for name, value in named.items() if value}}

    def inputs(self, texts: Sequence[str]) -> TokenInputs:
        return TokenInputs(self, texts)


def _unknown(rules: str) -> int | None:
    """The number of the token that stands for whatever is not known."""
    model = json.loads(rules).get("model", {})
    if isinstance(model.get("unk_id"), int):
        return int(model["unk_id"])
    words = model.get("vocab")
    return words.get(model.get("unk_token")) if isinstance(words, dict) else None


def filled(rows: Sequence[NDArray[np.int32]], width: int | None = None) -> Tensor:
    """[B, T] int64: each row of token numbers, then -1."""
    size = max([1, *map(len, rows)]) if width is None else width
    numbers = torch.full((len(rows), size), -1, dtype=torch.int64)
    for place, row in enumerate(rows):
        numbers[place, : len(row)] = torch.from_numpy(row)
    return numbers


class TokenInputs:
    """Texts as rows of token numbers, all of one width."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        self.tokenizer, self.texts = tokenizer, texts
        self.rows = tokenizer.numbers(texts)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        return filled([self.rows[row] for row in rows.tolist()], self.tokenizer.longest)

    def content(self, rows: Tensor) -> Tensor:
        return chance.of_names([self.texts[row] for row in rows.tolist()])

    def describe(self) -> dict[str, Any]:
        return {"kind": KIND, **self.tokenizer.options(), "rules": self.tokenizer.rules}

    @staticmethod
    def tokenizer_of(description: dict[str, Any]) -> Tokenizer:
        return Tokenizer(**{name: value for name, value in description.items() if name != "kind"})
