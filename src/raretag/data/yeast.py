"""Yeast: 2,417 genes as 103 measurements, 14 functions, 4.2 an item.

https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/yeast/`: the two ARFF files of the official split
and the list of labels as XML.

Elisseeff and Weston, "A kernel method for multi-labelled classification", NIPS 2001. A share of the training items is
held out for validation.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.mulan import MulanSet

FILES = ("mulan/yeast/yeast-train.arff", "mulan/yeast/yeast-test.arff", "mulan/yeast/yeast.xml")


class Yeast(MulanSet):
    name = "yeast"
    files = FILES

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        super().__init__(__doc__, validation, seed, root)
