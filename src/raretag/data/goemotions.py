"""GoEmotions: 54,263 Reddit comments, 27 emotions and neutral, 1.2 labels an item.

https://github.com/google-research/google-research/tree/master/goemotions (goemotions/data): `goemotions/train.tsv`,
`dev.tsv`, `test.tsv` and the list of labels as `goemotions/labels.txt` (there: emotions.txt).

Demszky et al., "GoEmotions: A Dataset of Fine-Grained Emotions", ACL 2020. Official split 43,410 / 5,426 / 5,427. A
text becomes a vector of word weights (TF-IDF) that are learned from the training texts; `words` is its length. With
`encoder` it becomes the vector of a frozen sentence encoder: a folder, or `minilm`.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.place import Place
from raretag.data.building.splits import NamedSet, Splits
from raretag.data.inputs.encoder import SentenceEncoder, cache_folder
from raretag.data.inputs.text import TfIdf
from raretag.data.reading import emotions, label_list
from raretag.labels.collection import Inputs
from raretag.labels.store import LabelStore

FILES = (
    "goemotions/train.tsv",
    "goemotions/dev.tsv",
    "goemotions/test.tsv",
    "goemotions/labels.txt|goemotions/emotions.txt",
)


class Goemotions(NamedSet):
    name = "goemotions"

    def __init__(
        self, *, words: int = 10_000, ngrams: int = 1, encoder: str | None = None, root: Path | None = None
    ) -> None:
        self.words, self.ngrams, self.encoder = words, ngrams, encoder
        self.place = Place("goemotions", __doc__, root)
        self.weights = TfIdf(words=words, ngrams=ngrams)
        self.texts: dict[str, str] = {}  # by id

    def splits(self) -> Splits:
        names = label_list.names(self.place.file(FILES[3]), "label")
        stores = []
        for file in FILES[:3]:
            ids, texts, rows = emotions.texts(self.place.file(file), len(names))
            self.texts |= zip(ids, texts, strict=True)
            stores.append(LabelStore.from_lists(rows, names=names, ids=ids))
        train, validation, test = stores
        how = {"encoder": self.encoder} if self.encoder else {"words": self.words, "ngrams": self.ngrams}
        return Splits(train, test, validation, notes=how)

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        texts = [self.texts[str(item)] for item in store.ids]
        if self.encoder:
            return SentenceEncoder(self.encoder).inputs(texts, cache_folder())
        if part == "train":
            self.weights.fit(texts)
        return self.weights.inputs(texts)
