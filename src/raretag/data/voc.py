"""PASCAL VOC 2007 or 2012: photographs with up to 20 kinds of objects.

The devkit of http://host.robots.ox.ac.uk/pascal/VOC unpacked as `VOCdevkit/`, with `VOC2012/` and/or `VOC2007/` in it,
each with Annotations, ImageSets and JPEGImages.

2007: trainval and test. 2012, whose test labels are secret: train and val, as in the work on single positive labels.
`train_list` and `test_list` name other files of ImageSets/Main. There is no validation part that nobody tests on, so a
share of the training images is held out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from raretag.data.building.place import Place
from raretag.data.building.splits import Splits
from raretag.data.building.voc_devkit import Difficult, VocDevkit

FILES = ("VOCdevkit/VOC2012/ImageSets/Main/train.txt|VOCdevkit/VOC2007/ImageSets/Main/trainval.txt",)


class Voc(VocDevkit):
    name = "voc"

    def __init__(
        self,
        *,
        year: Literal[2007, 2012] = 2012,
        train_list: str = "",
        test_list: str = "",
        difficult: Difficult = "negative",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        super().__init__(Place("voc", __doc__, root), difficult, "none", size, validation, seed)
        train, test = ("trainval", "test") if year == 2007 else ("train", "val")
        self.lists = [f"VOCdevkit/VOC{year}/ImageSets/Main/{n}.txt" for n in (train_list or train, test_list or test)]

    def splits(self) -> Splits:
        train, test = map(self.ids, self.lists)
        return self.held_out(train, test)
