"""Corel5k: 5,000 pictures as 499 visual words, 374 labels, 3.5 an item; most labels are very rare.

https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/corel5k/`: the two ARFF files of the official
split and the list of labels as XML.

Duygulu et al., "Object recognition as machine translation", ECCV 2002. A share of the training items is held out for
validation.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.mulan import MulanSet

FILES = (
    "mulan/corel5k/Corel5k-train-sparse.arff",
    "mulan/corel5k/Corel5k-test-sparse.arff",
    "mulan/corel5k/Corel5k.xml",
)


class Corel5k(MulanSet):
    name = "corel5k"
    files = FILES

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        super().__init__(__doc__, validation, seed, root)
