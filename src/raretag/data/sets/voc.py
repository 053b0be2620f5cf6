"""PASCAL VOC in the layout of its devkit: image sets, annotations and images by the id of an image."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

from raretag.core.errors import UserError
from raretag.data.dataset import Inputs
from raretag.data.files import parse_xml, read_names, shown, wrong
from raretag.data.inputs.feature_files import read_archive
from raretag.data.inputs.features import Features
from raretag.data.sets.named import NamedSet, Place, Splits, rows_by_id
from raretag.labels.longtail import pareto
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
LARGEST, POWER = 1400, 12.0  # of the Pareto curve of PLT-VOC, from the authors' script


class VocDevkit(NamedSet):
    """What all sets of VOC images share. `difficult`: what a class is of which an image has only difficult objects."""

    FILES: ClassVar[tuple[str, ...]]

    def __init__(
        self, root: Path | None, difficult: Difficult, features: FeatureName, size: int, validation: float, seed: int
    ) -> None:
        self.place = Place(self.name, self.__doc__, root)
        self.difficult, self.features, self.size = difficult, features, size
        self.validation, self.seed = validation, seed

    def ids(self, names: str) -> list[str]:
        """The ids of an image set."""
        return read_names(self.place.file(names), "image", allowed=r"[\w-]+")

    def store(self, ids: list[str]) -> LabelStore:
        """The labels of some images from their annotations."""
        number = {name: label for label, name in enumerate(CLASSES)}
        positives, negatives, everything = [], [], set(range(len(CLASSES)))
        for image in ids:
            path = self.place.file(f"{_folder(image)}/Annotations/{image}.xml")
            sure, unsure = set[int](), set[int]()
            for name, difficult in read_objects(path):
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
            known = set(read_archive(self._features())[1])
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
            x, ids = read_archive(self._features())
            row = rows_by_id(ids)
            return Features(x[[row[str(image)] for image in store.ids]])
        root = self.place.file("VOCdevkit").parent
        paths = [root / _folder(str(image)) / "JPEGImages" / f"{image}.jpg" for image in store.ids]
        return self.place.images(paths, self.size, self.seed)

    def _features(self) -> Path:
        return self.place.file(f"VOCdevkit/{self.features}_features.npz")


class Voc(VocDevkit):
    """PASCAL VOC 2007 or 2012: photographs with up to 20 kinds of objects.

    The devkit of http://host.robots.ox.ac.uk/pascal/VOC unpacked as `VOCdevkit/`, with `VOC2012/` and/or `VOC2007/` in
    it, each with Annotations, ImageSets and JPEGImages.

    2007: trainval and test. 2012, whose test labels are secret: train and val, as in the work on single positive
    labels. `train_list` and `test_list` name other files of ImageSets/Main. There is no validation part that nobody
    tests on, so a share of the training images is held out. `features: mobilenetv2` reads ready-made features instead
    of images.
    """

    name = "voc"
    FILES = ("VOCdevkit/VOC2012/ImageSets/Main/train.txt|VOCdevkit/VOC2007/ImageSets/Main/trainval.txt",)

    def __init__(
        self,
        *,
        year: Literal[2007, 2012] = 2012,
        train_list: str = "",
        test_list: str = "",
        difficult: Difficult = "negative",
        features: FeatureName = "none",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        super().__init__(root, difficult, features, size, validation, seed)
        train, test = ("trainval", "test") if year == 2007 else ("train", "val")
        self.lists = [f"VOCdevkit/VOC{year}/ImageSets/Main/{n}.txt" for n in (train_list or train, test_list or test)]

    def splits(self) -> Splits:
        train, test = map(self.ids, self.lists)
        return self.held_out(train, test)


class VocMlt(VocDevkit):
    """VOC-MLT: 1,142 PASCAL VOC photographs, 20 labels, long-tailed (775 persons, 4 cows).

    The devkit of http://host.robots.ox.ac.uk/pascal/VOC as `VOCdevkit/` with `VOC2012/` and `VOC2007/`; the list of
    training images of https://github.com/wutong16/DistributionBalancedLoss (appendix/VOCdevkit/longtail2012/img_id.txt)
    as `VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt`.

    Wu et al., "Distribution-Balanced Loss", ECCV 2020, section 4.1. Difficult objects are positive, as in the authors'
    code. The paper tests on the 4,952 images of VOC2007 test and has no validation part; a share of the training images
    is held out for it. `features: mobilenetv2` reads ready-made features instead of images. `test_images` leaves so
    many test images, evenly spaced in the list, for machines on which a network takes long for all of them.
    """

    name = "voc_mlt"
    FILES = (
        "VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt|VOCdevkit/longtail2012/img_id.txt",
        "VOCdevkit/VOC2007/ImageSets/Main/test.txt|VOCdevkit/VOC2012/ImageSets/Main/test.txt",
    )

    def __init__(
        self,
        *,
        difficult: Difficult = "positive",
        features: FeatureName = "none",
        size: int = 224,
        validation: float = 0.1,
        test_images: int | None = None,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        super().__init__(root, difficult, features, size, validation, seed)
        if test_images is not None and test_images < 1:
            raise UserError(f"voc_mlt.test_images is {test_images}; expected 1 or more")
        self.test_images = test_images

    def splits(self) -> Splits:
        test, remarks = self.papers_test()
        if self.test_images is not None and self.test_images < len(test):
            remarks = (*remarks, f"test: {self.test_images:,} of {len(test):,} images, evenly spaced in the list")
            test = [test[row * len(test) // self.test_images] for row in range(self.test_images)]
        return self.held_out(self.ids(self.FILES[0]), test).remarked(*remarks)


class PltVoc(VocDevkit):
    """PLT-VOC: long-tailed PASCAL VOC photographs with 40 % of the training positives missing.

    The devkit of http://host.robots.ox.ac.uk/pascal/VOC as `VOCdevkit/` with `VOC2012/` and `VOC2007/`; the list of
    training images of https://github.com/wannature/COMIC (dataset/voc/voc/img_id.txt) as
    `VOCdevkit/VOC2012/ImageSets/Main/plt-voc-train.txt`, or else it is drawn from VOC2012 trainval.

    Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and
    Partial Labels", ICCV 2023, section 5.1. The published list has 2,830 images (the paper says 2,569) and no published
    file says which labels are missing: each positive is hidden with probability `missing`, and every image keeps one.
    Without the list, images are drawn along the Pareto curve with the parameters of the authors' script (largest 1400,
    power 12), by the run's seed or, so that all seeds share one list, by `drawn_by`. Difficult objects do not count, as
    in the authors' counts. `DataSet.truth` has the labels before hiding; validation and test keep all.
    """

    name = "plt_voc"
    FILES = (
        "VOCdevkit/VOC2012/ImageSets/Main/plt-voc-train.txt|VOCdevkit/VOC2012/ImageSets/Main/trainval.txt",
        "VOCdevkit/VOC2007/ImageSets/Main/test.txt|VOCdevkit/VOC2012/ImageSets/Main/test.txt",
    )

    def __init__(
        self,
        *,
        missing: float = 0.4,
        difficult: Difficult = "negative",
        features: FeatureName = "none",
        size: int = 224,
        validation: float = 0.1,
        drawn_by: int | None = None,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if not 0 <= missing < 1:
            raise UserError(f"plt_voc.missing is {missing}; expected the share of positives to hide, from 0 to below 1")
        super().__init__(root, difficult, features, size, validation, seed)
        self.missing = missing
        self.drawn_by = seed if drawn_by is None else drawn_by

    def splits(self) -> Splits:
        test, remarks = self.papers_test()
        path = self.place.file(self.FILES[0])
        train = self.ids(self.FILES[0])
        if path.stem == "trainval":
            train = [train[row] for row in pareto(self.store(train), LARGEST, POWER, self.drawn_by)]
            remarks = (*remarks, f"train: {len(train):,} images drawn from trainval, as the published list is absent")
        return self.held_out(train, test).remarked(*remarks).with_hidden(self.missing, self.seed)


def read_objects(path: Path) -> list[tuple[str, bool]]:
    """The class of each object of an annotation file, and whether it is marked as difficult."""
    root = parse_xml(path)
    if root.tag != "annotation":
        raise wrong(path, f"the first element is <{root.tag}>; expected the <annotation> of a VOC devkit")
    found = []
    for element in root.findall("object"):  # its direct children only: body parts have a <name> of their own
        name, difficult = element.findtext("name", "").strip(), element.findtext("difficult", "0").strip()
        if not name:
            raise wrong(path, "an <object> has no <name>; expected the name of its class")
        if difficult not in ("0", "1"):
            raise wrong(path, f"<difficult> is {shown(difficult)}; expected 0 or 1")
        found.append((name, difficult == "1"))
    return found


def _folder(image: str) -> str:
    return "VOCdevkit/VOC2012" if "_" in image else "VOCdevkit/VOC2007"  # ids: 2008_000023 and 000023
