"""Enron: 1,702 e-mails as 1,001 words, 53 labels, 3.4 an item.

https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/enron/`: the two ARFF files of the official split
and the list of labels as XML.

Read and Pfahringer, from the Enron e-mail corpus of the UC Berkeley annotation project, 2008. A share of the training
items is held out for validation.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.mulan import MulanSet

FILES = ("mulan/enron/enron-train.arff", "mulan/enron/enron-test.arff", "mulan/enron/enron.xml")


class Enron(MulanSet):
    name = "enron"
    files = FILES

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        super().__init__(__doc__, validation, seed, root)
