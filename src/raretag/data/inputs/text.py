"""Texts as vectors: word weights (TF-IDF) learned from the training texts, which ship as JSON.

    tf-idf(w, d) = (1 + ln n(w, d)) (1 + ln((1 + N) / (1 + N(w)))), then each text is scaled to length 1

with n(w, d) how often word w stands in text d, and N(w) in how many of N training texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from raretag.core.errors import UserError
from raretag.data.inputs.features import Features


class TfIdf:
    """Word weights. `vocabulary()` is plain JSON and `from_vocabulary` reads it: no pickle."""

    def __init__(self, *, words: int = 20_000, ngrams: int = 1, lowercase: bool = True) -> None:
        if words < 1 or ngrams < 1:
            raise UserError(f"words is {words} and ngrams {ngrams}; expected 1 or more")
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.options = {"ngrams": ngrams, "lowercase": lowercase}
        self.vectorizer = TfidfVectorizer(
            max_features=words,
            ngram_range=(1, ngrams),
            lowercase=lowercase,
            token_pattern=r"\b\w+\b",  # words of one letter too, which some languages need
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
        made = cls(words=len(words), ngrams=vocabulary["ngrams"], lowercase=vocabulary["lowercase"])
        made.vectorizer.vocabulary = {word: number for number, word in enumerate(words)}
        made.vectorizer.idf_ = np.asarray(weights, np.float32)
        return made


class Texts(Features):
    """Vectors of texts, and the texts themselves."""

    def __init__(self, values: Any, texts: Sequence[str]) -> None:
        super().__init__(values)
        self.texts = texts


class TextInputs(Texts):
    """Texts that became sparse vectors; a batch is dense."""

    def __init__(self, representation: TfIdf, values: sparse.csr_array, texts: Sequence[str]) -> None:
        super().__init__(values, texts)
        self.representation = representation

    def describe(self) -> dict[str, Any]:
        return self.representation.vocabulary()
