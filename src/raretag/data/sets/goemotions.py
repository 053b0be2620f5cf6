"""GoEmotions: 54,263 Reddit comments, 27 emotions and neutral, 1.2 labels per item.

https://github.com/google-research/google-research/tree/master/goemotions (goemotions/data): `goemotions/train.tsv`,
`dev.tsv`, `test.tsv` and the list of labels as `goemotions/labels.txt` (there: emotions.txt).

Demszky et al., "GoEmotions: A Dataset of Fine-Grained Emotions", ACL 2020. Official split 43,410 / 5,426 / 5,427. A
text becomes a vector of word weights (TF-IDF) that are learned from the training texts, up to `words` of them, beside
the vector of a frozen sentence encoder where one is installed (`representation`: auto, tfidf, encoder or both). With
`encoder`, a folder or `minilm`, and no representation named it is the vector of that encoder alone. With `texts` so
many training texts are drawn by the seed, and none of the others is used; the test part stays whole.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raretag.core import chance
from raretag.core.errors import UserError
from raretag.data.dataset import DataSet, Inputs
from raretag.data.files import lines, read_names, shown, whole, wrong
from raretag.data.inputs.representation import Kind, Representation, TextOptions
from raretag.data.sets.named import NamedSet, Place, Splits
from raretag.labels.store import LabelStore

FILES = (
    "goemotions/train.tsv",
    "goemotions/dev.tsv",
    "goemotions/test.tsv",
    "goemotions/labels.txt|goemotions/emotions.txt",
)
_PURPOSE = int.from_bytes(b"texts", "big")


class Goemotions(NamedSet):
    name = "goemotions"

    def __init__(
        self,
        *,
        representation: Kind | None = None,
        words: int | None = None,
        ngrams: int | None = None,
        characters: int | None = None,
        encoder: str | None = None,
        texts: int | None = None,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if texts is not None and texts < 1:
            raise UserError(f"goemotions.texts is {texts}; expected how many training texts to draw, 1 or more")
        kind = representation or ("auto" if encoder is None else "encoder")
        self.drawn, self.seed = texts, seed
        self.place = Place("goemotions", __doc__, root)
        self.options = TextOptions(kind, words, ngrams, characters, encoder)
        self.representation: Representation | None = None  # made from the training texts
        self.texts: dict[str, str] = {}  # by id

    def splits(self) -> Splits:
        names = read_names(self.place.file(FILES[3]), "label")
        stores = []
        for file in FILES[:3]:
            ids, texts, rows = read_texts(self.place.file(file), len(names))
            self.texts |= zip(ids, texts, strict=True)
            stores.append(LabelStore.from_lists(rows, names=names, ids=ids))
        train, validation, test = stores
        if self.drawn is None:
            return Splits(train, test, validation)
        chosen = chance.permutation(len(train), _PURPOSE, self.seed)[: self.drawn].sort().values
        few = Splits.held_out(train.take(chosen), test, 0.0, self.seed)
        return few.remarked(f"train: {len(chosen):,} of {len(train):,} texts, drawn at random")

    def load(self) -> DataSet:
        data, chosen = super().load(), self.representation
        assert chosen is not None
        return replace(data, notes={**data.notes, "texts": chosen.notes()}, remarks=(*data.remarks, *chosen.remarks()))

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        texts = [self.texts[str(item)] for item in store.ids]
        if part == "train":
            self.representation = Representation(self.options, texts).fit(texts)
        assert self.representation is not None
        return self.representation.inputs(texts)


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
