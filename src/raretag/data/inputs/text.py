r"""Texts as vectors: weights of words or of pieces of them (TF-IDF) learned from the training texts; they ship as JSON.

    tf-idf(w, d) = (1 + ln n(w, d)) (1 + ln((1 + N) / (1 + N(w)))), then each text is scaled to length 1

with n(w, d) how often word w stands in text d, and N(w) in how many of N training texts.

Several vectors of a text may stand side by side, such as word weights and sentence vectors. Each part has rows of
length 1 (or 0, a text without a known word). With weights a_p that are the same for all items,

    x = [a_1 x_1 | a_2 x_2 | ...] / |[a_1 x_1 | a_2 x_2 | ...]|

so that every row has length 1 again, and a part that is empty leaves its share to the others. A linear model with one
strength for all columns trusts a part as much as the square of its weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.data.inputs.features import Features

PIECES = (3, 5)  # letters in a row
TOKEN = r"\b\w+\b"  # a word; those of one letter too, which some languages need
SIDE_BY_SIDE = "side_by_side"


class TfIdf:
    """Word weights. `vocabulary()` is plain JSON and `from_vocabulary` reads it: no pickle.

    Args:
        words: how many, at most: the most frequent ones.
        ngrams: up to how many in a row count as one.
        lowercase: whether Red is red.
        pieces: weights of 3 to 5 letters in a row within a word, with its edges, instead of whole words.
    """

    def __init__(self, *, words: int = 20_000, ngrams: int = 1, lowercase: bool = True, pieces: bool = False) -> None:
        if words < 1 or ngrams < 1:
            raise UserError(f"words is {words} and ngrams {ngrams}; expected 1 or more")
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.options = {"ngrams": ngrams, "lowercase": lowercase, **({"pieces": True} if pieces else {})}
        self.vectorizer = TfidfVectorizer(
            max_features=words,
            analyzer="char_wb" if pieces else "word",
            ngram_range=PIECES if pieces else (1, ngrams),
            lowercase=lowercase,
            token_pattern=None if pieces else TOKEN,
            sublinear_tf=True,
            dtype=np.float32,
        )

    def fit(self, texts: Iterable[str]) -> TfIdf:
        try:
            self.vectorizer.fit(texts)
        except ValueError as error:
            raise UserError(f"the training texts hold no words to learn from: {error}") from None
        return self

    def transform(self, texts: Iterable[str]) -> sparse.csr_array:
        return sparse.csr_array(self.vectorizer.transform(texts), dtype=np.float32)

    def inputs(self, texts: Iterable[str]) -> TextInputs:
        texts = list(texts)
        return TextInputs(self, self.transform(texts), texts)

    def vocabulary(self) -> dict[str, Any]:
        """All that was learned; words stand in the order of the columns."""
        weights = [float(weight) for weight in self.vectorizer.idf_]
        return {
            "kind": "tfidf",
            **self.options,
            "words": self.vectorizer.get_feature_names_out().tolist(),
            "idf": weights,
        }

    @classmethod
    def from_vocabulary(cls, vocabulary: dict[str, Any]) -> TfIdf:
        words, weights = vocabulary.get("words"), vocabulary.get("idf")
        if vocabulary.get("kind") != "tfidf" or not words or not weights or len(words) != len(weights):
            raise UserError(
                "this is not a vocabulary of TF-IDF: expected kind, words and idf, as vocabulary() gives them"
            )
        options = {name: vocabulary[name] for name in ("ngrams", "lowercase", "pieces") if name in vocabulary}
        made = cls(words=len(words), **options)
        made.vectorizer.vocabulary = {word: number for number, word in enumerate(words)}
        made.vectorizer.idf_ = np.asarray(weights, np.float32)
        return made


class Texts(Features):
    """Vectors of texts, and the texts themselves."""

    def __init__(self, values: Any, texts: Sequence[str]) -> None:
        super().__init__(values)
        self.texts = texts

    def content(self, rows: Tensor) -> Tensor:
        return chance.of_names([self.texts[row] for row in rows.tolist()])


class TextInputs(Texts):
    """Texts that became sparse vectors; a batch is dense."""

    def __init__(self, representation: TfIdf, values: sparse.csr_array, texts: Sequence[str]) -> None:
        super().__init__(values, texts)
        self.representation = representation

    def describe(self) -> dict[str, Any]:
        return self.representation.vocabulary()


class SideBySide:
    """Vectors of texts in named blocks of columns. Sparse parts stay sparse until a batch is asked for.

    Args:
        parts: by name, from left to right; all of the same texts.
        weights: how much each part counts, by name.
    """

    def __init__(self, parts: Mapping[str, Texts], weights: Mapping[str, float]) -> None:
        self.parts, self.weights = dict(parts), dict(weights)
        squares = sum(weights[name] ** 2 * squared_lengths(part.values) for name, part in parts.items())
        self.factor = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))  # [N]

    @property
    def texts(self) -> Sequence[str]:
        return next(iter(self.parts.values())).texts

    def __len__(self) -> int:
        return len(self.factor)

    def batch(self, rows: Tensor, epoch: int | None = None) -> Tensor:
        found = torch.cat([self.weights[name] * part.batch(rows, epoch) for name, part in self.parts.items()], dim=1)
        return found * torch.from_numpy(self.factor[rows.numpy()].astype(np.float32))[:, None]

    def sparse_batch(self, rows: Tensor) -> sparse.csr_array:
        """The same as a sparse matrix, in which the columns of a dense part are all filled."""
        number = rows.numpy()
        blocks = [self.weights[name] * sparse.csr_array(part.values[number]) for name, part in self.parts.items()]
        scale = sparse.diags_array(self.factor[number])
        return sparse.csr_array(scale @ sparse.hstack(blocks, format="csr"), dtype=np.float32)

    def content(self, rows: Tensor) -> Tensor:
        return next(iter(self.parts.values())).content(rows)

    def blocks(self) -> dict[str, range]:
        """The columns of each part."""
        found, start = {}, 0
        for name, part in self.parts.items():
            found[name] = range(start, start + part.values.shape[1])
            start = found[name].stop
        return found

    def describe(self) -> dict[str, Any]:
        parts = {name: part.describe() for name, part in self.parts.items()}
        return {"kind": SIDE_BY_SIDE, "parts": parts, "weights": self.weights}


def squared_lengths(values: Any) -> NDArray[np.float64]:
    """[N] of the rows of an array or a sparse matrix."""
    if sparse.issparse(values):
        return np.asarray(values.multiply(values).sum(axis=1), np.float64).ravel()
    return np.asarray(np.einsum("nd,nd->n", values, values, dtype=np.float64))
