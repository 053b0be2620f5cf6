"""arXiv abstracts: 1,000 titles and abstracts as raw text, 115 subject tags, most of them very rare.

From the metadata of https://arxiv.org, as a CSV file `texts/arxiv.csv` with the columns `id`, `text` and `tags` (`;`
between tags).

It has no parts: a stratified 30 % of the texts are the test part, drawn by the seed. It is read as a table of one's
own, so what a table does with texts is what happens here.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.inputs.representation import Kind
from raretag.data.sets.named import Place
from raretag.data.table.source import Table

FILES = ("texts/arxiv.csv",)
TESTED = 0.3


class Arxiv(Table):
    name = "arxiv"

    def __init__(
        self,
        *,
        representation: Kind = "auto",
        words: int | None = None,
        ngrams: int | None = None,
        characters: int | None = None,
        encoder: str | None = None,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        super().__init__(
            file=str(Place(self.name, __doc__, root).file(FILES[0])),
            text="text",
            labels="tags",
            id="id",
            delimiter=";",
            representation=representation,
            words=words,
            ngrams=ngrams,
            characters=characters,
            encoder=encoder,
            validation=validation,
            test=TESTED,
            seed=seed,
        )
