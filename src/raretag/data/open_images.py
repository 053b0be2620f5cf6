"""Open Images: photographs with thousands of labels, a few verified by people in each; the rest is unknown.

https://storage.googleapis.com/openimages/web/download_v7.html (image labels, human-verified): in `open-images/`, the
files `{train,validation,test}-annotations-human-imagelabels.csv` (or as they are called there, or gzipped) and
`class-descriptions.csv`; images as `open-images/{train,validation,test}/<ImageID>.jpg`.

Confidence 1 is positive, 0 is negative, no line is unknown; lines stream by and leave about ten bytes behind.
`classes` names a file in `open-images/` with the label ids to use, one a line (classes-trainable.txt), else all are.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.place import Place
from raretag.data.building.splits import NamedSet, Splits
from raretag.data.reading import label_list, open_images
from raretag.data.reading.bounded import inside, wrong
from raretag.labels.collection import Inputs
from raretag.labels.store import LabelStore

FILES = (
    "open-images/train-annotations-human-imagelabels.csv|open-images/train-annotations-human-imagelabels.csv.gz"
    "|open-images/oidv7-train-annotations-human-imagelabels.csv|open-images/oidv6-train-annotations-human-imagelabels.csv",
    "open-images/validation-annotations-human-imagelabels.csv|open-images/validation-annotations-human-imagelabels.csv.gz"
    "|open-images/oidv7-val-annotations-human-imagelabels.csv",
    "open-images/test-annotations-human-imagelabels.csv|open-images/test-annotations-human-imagelabels.csv.gz"
    "|open-images/oidv7-test-annotations-human-imagelabels.csv",
    "open-images/class-descriptions.csv|open-images/oidv7-class-descriptions.csv|open-images/oidv6-class-descriptions.csv",
)


class OpenImages(NamedSet):
    name = "open_images"

    def __init__(self, *, classes: str = "", size: int = 224, seed: int = 0, root: Path | None = None) -> None:
        self.classes, self.size, self.seed = classes, size, seed
        self.place = Place("open_images", __doc__, root)

    def splits(self) -> Splits:
        path = self.place.file(FILES[3])
        called = open_images.descriptions(path)
        ids = list(called)
        if self.classes:
            chosen = inside(path.parent, self.classes, path)
            ids = label_list.names(chosen, "label")
            absent = [key for key in ids if key not in called]
            if absent:
                raise wrong(chosen, f"the label '{absent[0]}' has no description in '{path.name}'")
        column = {key: place for place, key in enumerate(ids)}
        names = [called[key] for key in ids]
        others = "skip" if self.classes else "refuse"
        train, validation, test = (
            open_images.verified(self.place.file(file), column, names, others) for file in FILES[:3]
        )
        return Splits(train, test, validation, notes={"classes": self.classes or "all"})

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        folder = self.place.file("open-images") / part
        return self.place.images([folder / f"{image}.jpg" for image in store.ids], self.size, self.seed)
