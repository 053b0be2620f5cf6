"""Sets of MULAN, with their official splits: yeast, enron, corel5k, delicious."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from raretag.data.sets.arff import arff_part
from raretag.data.sets.named import FeatureRows, Part, Place


class MulanSet(FeatureRows):
    """`FILES` are the training file, the test file and the list of labels."""

    FILES: ClassVar[tuple[str, ...]]

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        self.place = Place(self.name, self.__doc__, root)
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        train, test, labels = map(self.place.file, self.FILES)
        return {"train": arff_part("train", train, labels), "test": arff_part("test", test, labels)}


class Corel5k(MulanSet):
    """Corel5k: 5,000 pictures as 499 visual words, 374 labels, 3.5 an item; most labels are very rare.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/corel5k/`: the two ARFF files of the official
    split and the list of labels as XML.

    Duygulu et al., "Object recognition as machine translation", ECCV 2002. A share of the training items is held out
    for validation.
    """

    name = "corel5k"
    FILES = (
        "mulan/corel5k/Corel5k-train-sparse.arff",
        "mulan/corel5k/Corel5k-test-sparse.arff",
        "mulan/corel5k/Corel5k.xml",
    )


class Delicious(MulanSet):
    """Delicious: 16,105 web pages as 500 words, 983 tags, 19 an item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/delicious/`: the two ARFF files of the official
    split and the list of labels as XML.

    Tsoumakas et al., "Effective and efficient multilabel classification in domains with large number of labels", 2008.
    A share of the training items is held out for validation.
    """

    name = "delicious"
    FILES = (
        "mulan/delicious/delicious-train.arff",
        "mulan/delicious/delicious-test.arff",
        "mulan/delicious/delicious.xml",
    )


class Enron(MulanSet):
    """Enron: 1,702 e-mails as 1,001 words, 53 labels, 3.4 an item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/enron/`: the two ARFF files of the official
    split and the list of labels as XML.

    Read and Pfahringer, from the Enron e-mail corpus of the UC Berkeley annotation project, 2008. A share of the
    training items is held out for validation.
    """

    name = "enron"
    FILES = ("mulan/enron/enron-train.arff", "mulan/enron/enron-test.arff", "mulan/enron/enron.xml")


class Yeast(MulanSet):
    """Yeast: 2,417 genes as 103 measurements, 14 functions, 4.2 an item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/yeast/`: the two ARFF files of the official
    split and the list of labels as XML.

    Elisseeff and Weston, "A kernel method for multi-labelled classification", NIPS 2001. A share of the training items
    is held out for validation.
    """

    name = "yeast"
    FILES = ("mulan/yeast/yeast-train.arff", "mulan/yeast/yeast-test.arff", "mulan/yeast/yeast.xml")
