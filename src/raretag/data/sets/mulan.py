"""Words, genes and visual words with many labels: sets of MULAN with their official splits, and two of MLDR."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from raretag.data.sets.arff import arff_part
from raretag.data.sets.named import FeatureRows, Part, Place
from raretag.data.sets.svmlight import read_parts


class MulanSet(FeatureRows):
    """`FILES` are the training file, the test file and the list of labels."""

    FILES: ClassVar[tuple[str, ...]]

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        self.place = Place(self.name, self.__doc__, root)
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        train, test, labels = map(self.place.file, self.FILES)
        return {"train": arff_part("train", train, labels), "test": arff_part("test", test, labels)}


class Bibtex(MulanSet):
    """Bibtex: 7,395 entries of a bibliography as 1,836 words, 159 tags, 2.4 per item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/bibtex/`: the two ARFF files of the official
    split and the list of labels as XML.

    Katakis et al., "Multilabel text classification for automated tag suggestion", ECML PKDD discovery challenge 2008.
    A share of the training items is held out for validation.
    """

    name = "bibtex"
    FILES = ("mulan/bibtex/bibtex-train.arff", "mulan/bibtex/bibtex-test.arff", "mulan/bibtex/bibtex.xml")


class Corel5k(MulanSet):
    """Corel5k: 5,000 pictures as 499 visual words, 374 labels, 3.5 per item; most labels are very rare.

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
    """Delicious: 16,105 web pages as 500 words, 983 tags, 19 per item.

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
    """Enron: 1,702 e-mails as 1,001 words, 53 labels, 3.4 per item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/enron/`: the two ARFF files of the official
    split and the list of labels as XML.

    Read and Pfahringer, from the Enron e-mail corpus of the UC Berkeley annotation project, 2008. A share of the
    training items is held out for validation.
    """

    name = "enron"
    FILES = ("mulan/enron/enron-train.arff", "mulan/enron/enron-test.arff", "mulan/enron/enron.xml")


class Tmc2007(MulanSet):
    """TMC2007-500: 28,596 reports on flight safety as 500 words, 22 labels, 2.2 per item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/tmc2007-500/`: the two ARFF files of the
    official split and the list of labels as XML.

    Srivastava and Zane-Ulman, "Discovering recurring anomalies in text reports regarding complex space systems", 2005.
    A share of the training items is held out for validation.
    """

    name = "tmc2007"
    FILES = (
        "mulan/tmc2007-500/tmc2007-500-train.arff",
        "mulan/tmc2007-500/tmc2007-500-test.arff",
        "mulan/tmc2007-500/tmc2007-500.xml",
    )


class Yeast(MulanSet):
    """Yeast: 2,417 genes as 103 measurements, 14 functions, 4.2 per item.

    https://mulan.sourceforge.net/datasets-mlc.html, unpacked as `mulan/yeast/`: the two ARFF files of the official
    split and the list of labels as XML.

    Elisseeff and Weston, "A kernel method for multi-labelled classification", NIPS 2001. A share of the training items
    is held out for validation.
    """

    name = "yeast"
    FILES = ("mulan/yeast/yeast-train.arff", "mulan/yeast/yeast-test.arff", "mulan/yeast/yeast.xml")


class MldrSet(FeatureRows):
    """`FILES` are the training and the test file, as sparse rows after a line `items columns labels`."""

    FILES: ClassVar[tuple[str, ...]]

    def __init__(self, *, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        self.place = Place(self.name, self.__doc__, root)
        self.validation, self.seed = validation, seed

    def parts(self) -> dict[str, Part]:
        train, test = map(self.place.file, self.FILES)
        return read_parts({"train": train, "test": test})


class Langlog(MldrSet):
    """LangLog: 1,460 posts of a blog on language as 1,004 words, 75 labels, 1.2 per item.

    https://www.uco.es/kdis/mllresources/, written as sparse rows `mldr/langlog-train.svm` and `mldr/langlog-test.svm`.

    Read, "Scalable multi-label classification", 2010. A share of the training items is held out for validation.
    """

    name = "langlog"
    FILES = ("mldr/langlog-train.svm", "mldr/langlog-test.svm")


class Slashdot(MldrSet):
    """Slashdot: 3,782 news items as 1,079 words, 22 labels, 1.2 per item.

    https://www.uco.es/kdis/mllresources/, written as sparse rows `mldr/slashdot-train.svm` and
    `mldr/slashdot-test.svm`.

    Read, "Scalable multi-label classification", 2010. A share of the training items is held out for validation.
    """

    name = "slashdot"
    FILES = ("mldr/slashdot-train.svm", "mldr/slashdot-test.svm")
