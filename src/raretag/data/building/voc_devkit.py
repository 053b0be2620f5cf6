"""PASCAL VOC in the layout of its devkit: image sets, annotations and images by the id of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from raretag.data.building.place import Place
from raretag.data.building.splits import NamedSet, Splits, rows_by_id
from raretag.data.reading import label_list, npz, voc_xml
from raretag.data.reading.bounded import wrong
from raretag.labels.collection import Inputs
from raretag.labels.store import LabelStore

Difficult: TypeAlias = Literal["positive", "negative", "unknown"]
FeatureName: TypeAlias = Literal["none", "mobilenetv2"]

_NAMES = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep "
    "sofa train tvmonitor"
)
CLASSES = _NAMES.split()
VOC2007_TEST = "VOCdevkit/VOC2007/ImageSets/Main/test.txt"
OWN_TEST = "VOCdevkit/VOC2012/ImageSets/Main/test.txt"


class VocDevkit(NamedSet):
    """What all sets of VOC images share. `difficult`: what a class is of which an image has only difficult objects."""

    def __init__(
        self, place: Place, difficult: Difficult, features: FeatureName, size: int, validation: float, seed: int
    ) -> None:
        self.place, self.difficult, self.features, self.size = place, difficult, features, size
        self.validation, self.seed = validation, seed

    def ids(self, names: str) -> list[str]:
        """The ids of an image set."""
        return label_list.names(self.place.file(names), "image", allowed=r"[\w-]+")

    def store(self, ids: list[str]) -> LabelStore:
        """The labels of some images from their annotations."""
        number = {name: label for label, name in enumerate(CLASSES)}
        positives, negatives, everything = [], [], set(range(len(CLASSES)))
        for image in ids:
            path = self.place.file(f"{_folder(image)}/Annotations/{image}.xml")
            sure, unsure = set[int](), set[int]()
            for name, difficult in voc_xml.objects(path):
                if name not in number:
                    raise wrong(path, f"there is no class '{name}' in PASCAL VOC; expected one of {', '.join(CLASSES)}")
                (unsure if difficult and self.difficult != "positive" else sure).add(number[name])
            positives.append(sorted(sure))
            negatives.append(sorted(everything - sure - (unsure if self.difficult == "unknown" else set())))
        if self.difficult == "unknown":
            return LabelStore.from_lists(positives, names=CLASSES, ids=ids, negatives=negatives)
        return LabelStore.from_lists(positives, names=CLASSES, ids=ids)

    def held_out(self, train: list[str], test: list[str]) -> Splits:
        """The splits of two image sets; with ready-made features only of the images that have some."""
        remarks = []
        if self.features != "none":
            known = set(npz.features(self._features())[1])
            for name, ids in (("train", train), ("test", test)):
                some = [image for image in ids if image in known]
                if len(some) < len(ids):
                    remarks.append(f"{name}: {len(some):,} of {len(ids):,} images have {self.features} features")
                ids[:] = some
        splits = Splits.held_out(self.store(train), self.store(test), self.validation, self.seed)
        return splits.remarked(*remarks, difficult=self.difficult, features=self.features)

    def papers_test(self) -> tuple[list[str], tuple[str, ...]]:
        """The test part of VOC2007, or another one if that is absent."""
        if self.place.find(VOC2007_TEST) is not None:
            return self.ids(VOC2007_TEST), ()
        ids = self.ids(f"{OWN_TEST}|{VOC2007_TEST}")
        return ids, (f"test: {len(ids):,} images of VOC2012; the paper's test part is that of VOC2007",)

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        if self.features != "none":
            from raretag.data.inputs.features import Features

            x, ids = npz.features(self._features())
            row = rows_by_id(ids)
            return Features(x[[row[str(image)] for image in store.ids]])
        root = self.place.file("VOCdevkit").parent
        paths = [root / _folder(str(image)) / "JPEGImages" / f"{image}.jpg" for image in store.ids]
        return self.place.images(paths, self.size, self.seed)

    def _features(self) -> Path:
        return self.place.file(f"VOCdevkit/{self.features}_features.npz")


def _folder(image: str) -> str:
    return "VOCdevkit/VOC2012" if "_" in image else "VOCdevkit/VOC2007"  # ids: 2008_000023 and 000023
