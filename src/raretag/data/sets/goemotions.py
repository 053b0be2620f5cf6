"""GoEmotions: 54,263 Reddit comments, 27 emotions and neutral, 1.2 labels an item.

https://github.com/google-research/google-research/tree/master/goemotions (goemotions/data): `goemotions/train.tsv`,
`dev.tsv`, `test.tsv` and the list of labels as `goemotions/labels.txt` (there: emotions.txt).

Demszky et al., "GoEmotions: A Dataset of Fine-Grained Emotions", ACL 2020. Official split 43,410 / 5,426 / 5,427. A
text becomes a vector of word weights (TF-IDF) that are learned from the training texts; `words` is its length. With
`encoder` it becomes the vector of a frozen sentence encoder: a folder, or `minilm`.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.files import cache_folder
from raretag.data.dataset import Inputs
from raretag.data.files import lines, read_names, shown, whole, wrong
from raretag.data.inputs.encoder import SentenceEncoder
from raretag.data.inputs.text import TfIdf
from raretag.data.sets.named import NamedSet, Place, Splits
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
        names = read_names(self.place.file(FILES[3]), "label")
        stores = []
        for file in FILES[:3]:
            ids, texts, rows = read_texts(self.place.file(file), len(names))
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


def read_texts(path: Path, labels: int) -> tuple[list[str], list[str], list[list[int]]]:
    """Lines `text<TAB>3,17<TAB>id`: ids, texts and label numbers."""
    found: dict[str, tuple[str, list[int]]] = {}
    for number, line in lines(path, longest=1 << 20):
        words = line.split("\t")
        if len(words) != 3 or not words[2].strip():
            raise wrong(path, f"{shown(line)} has {len(words)} columns; expected text, label numbers and id", number)
        name = words[2].strip()
        if name in found:
            raise wrong(path, f"the id {shown(name)} was there before; expected each once", number)
        found[name] = (words[0], [whole(path, word.strip(), number, "a label", labels) for word in words[1].split(",")])
    return list(found), [text for text, _ in found.values()], [row for _, row in found.values()]
