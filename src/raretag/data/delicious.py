"""Delicious: 16,105 web pages as 500 words, 983 tags, 19 an item.

https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/delicious/`: the two ARFF files of the official
split and the list of labels as XML.

Tsoumakas et al., "Effective and efficient multilabel classification in domains with large number of labels", 2008. A
share of the training items is held out for validation.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.mulan import MulanSet

FILES = ("mulan/delicious/delicious-train.arff", "mulan/delicious/delicious-test.arff", "mulan/delicious/delicious.xml")


class Delicious(MulanSet):
    name = "delicious"
    files = FILES

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        super().__init__(__doc__, validation, seed, root)
