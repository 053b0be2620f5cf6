"""COCO: its categories, its label files, and where the image of an id is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar, Literal

from raretag.core.errors import UserError
from raretag.data.dataset import Inputs
from raretag.data.files import read_label_list, read_names, wrong
from raretag.data.sets.coco_files import read_instances, read_labelled_ids
from raretag.data.sets.named import NamedSet, Place, Splits, partial, rows_by_id
from raretag.labels.longtail import pareto
from raretag.labels.store import LabelStore

_NAMES = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, "
    "handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, "
    "skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, "
    "sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining "
    "table, toilet, tv, laptop, mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, "
    "refrigerator, book, clock, vase, scissors, teddy bear, hair drier, toothbrush"
)
CLASSES = _NAMES.split(", ")  # in the order of their ids


class CocoImages(NamedSet):
    """What all sets of COCO images share. Item ids are file names, such as COCO_val2014_000000000042.jpg."""

    FILES: ClassVar[tuple[str, ...]]

    def __init__(self, root: Path | None, size: int, validation: float, seed: int) -> None:
        self.place = Place(self.name, self.__doc__, root)
        self.size, self.validation, self.seed = size, validation, seed

    def annotated(self, part: str) -> LabelStore | None:
        """The labels of the instances file of `train2014`, `val2017`, ...; None if it is absent."""
        path = self.place.find(f"coco/annotations/instances_{part}.json|coco/instances_{part}.json")
        if path is None:
            return None
        found = read_instances(path)
        return LabelStore.from_lists(found.rows, names=found.names, ids=found.files)

    def listed(self, name: str) -> LabelStore | None:
        """The labels of a published list, `coco_train_full` for one; None if it is absent."""
        path = self.place.find(f"coco/{name}.txt.gz|coco/{name}.txt")
        if path is None:
            return None
        files, rows = read_label_list(path, len(CLASSES))
        return LabelStore.from_lists(rows, names=CLASSES, ids=files)

    def needed(self, store: LabelStore | None, names: str) -> LabelStore:
        if store is None:
            self.place.file(names)  # raises an error with what is missing and where to get it
            raise UserError(f"{self.place.source}: the file for this choice of options is absent; expected {names}")
        return store

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        root = self.place.file("coco")
        folders = ("train2014", "val2014", "train2017", "val2017")
        there = {folder: set(os.listdir(root / folder)) if (root / folder).is_dir() else set() for folder in folders}
        paths = []
        for image in map(str, store.ids):
            wanted = places(image)
            folder, file = next(((folder, file) for folder, file in wanted if file in there[folder]), wanted[0])
            paths.append(root / folder / file)
        return self.place.images(paths, self.size, self.seed)


class Coco(CocoImages):
    """COCO 2014 or 2017: photographs with up to 80 kinds of objects.

    https://cocodataset.org: `coco/annotations/instances_{train,val}{2014,2017}.json`, images in
    `coco/{train,val}{2014,2017}/`. For 2014 the label lists of https://github.com/xinyu1205/robust-loss-mlml do
    instead: `coco/coco_train_full.txt[.gz]`, ...

    Training and test parts are COCO's train and val; a share of the training images is held out for validation. Lists
    with fewer positives (`annotations: 0.75left`, `0.4left`, `singlelabel`) keep at least one for each image; all else
    is unknown then, and `DataSet.truth` has the full labels.
    """

    name = "coco"
    FILES = (
        "coco/annotations/instances_train2014.json|coco/annotations/instances_train2017.json|coco/coco_train_full.txt.gz"
        "|coco/coco_train_full.txt",
        "coco/annotations/instances_val2014.json|coco/annotations/instances_val2017.json|coco/coco_val_full.txt.gz"
        "|coco/coco_val_full.txt",
    )

    def __init__(
        self,
        *,
        year: Literal[2014, 2017] = 2014,
        annotations: Literal["full", "0.75left", "0.4left", "singlelabel"] = "full",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if annotations != "full" and year != 2014:
            raise UserError(f"coco.annotations '{annotations}' are published for 2014 only, but year is {year}")
        super().__init__(root, size, validation, seed)
        self.year, self.annotations = year, annotations

    def splits(self) -> Splits:
        whole = Splits.held_out(self._part("train"), self._part("val"), self.validation, self.seed)
        if self.annotations == "full":
            return whole
        names = f"coco/coco_train_{self.annotations}.txt.gz|coco/coco_train_{self.annotations}.txt"
        left = self.needed(self.listed(f"coco_train_{self.annotations}"), names)
        return partial(whole, left, self.annotations)

    def _part(self, part: str) -> LabelStore:
        store = self.annotated(f"{part}{self.year}") if self.annotations == "full" else None
        if store is None and self.year == 2014:
            store = self.listed(f"coco_{part}_full")
        names = f"coco/annotations/instances_{part}{self.year}.json"
        return self.needed(store, f"{names}|coco/coco_{part}_full.txt.gz" if self.year == 2014 else names)


class CocoMlt(CocoImages):
    """COCO-MLT: 1,909 COCO photographs, 80 labels, long-tailed (1,128 persons, 6 hair driers).

    The list of https://github.com/wutong16/DistributionBalancedLoss (appendix/coco/longtail2017) as
    `coco/coco_mlt_train.json` (image_ids and labels) or, with `coco/annotations/instances_train2017.json`, as
    `coco/longtail2017/img_id.txt`; test labels in `coco/annotations/instances_val2017.json`; images of
    https://cocodataset.org in `coco/train2017/` and `coco/val2017/`.

    Wu et al., "Distribution-Balanced Loss", ECCV 2020, section 4.1. The paper tests on the 5,000 images of val2017.
    Without their labels the published list of val2014 (`coco/coco_val_full.txt`) stands in, without the images that are
    in training. A share of the training images is held out for validation. The published list is plain text even where
    it is called `img_id.pkl`; the `class_freq.pkl` beside it is a pickle and is not read.
    """

    name = "coco_mlt"
    FILES = (
        "coco/coco_mlt_train.json|coco/longtail2017/img_id.txt|coco/longtail2017/img_id.pkl",
        "coco/annotations/instances_val2017.json|coco/coco_val_full.txt.gz|coco/coco_val_full.txt",
    )

    def __init__(self, *, size: int = 224, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        super().__init__(root, size, validation, seed)

    def splits(self) -> Splits:
        train = self._train()
        test, remarks = self.papers_test(train)
        return Splits.held_out(train, test, self.validation, self.seed).remarked(*remarks)

    def _train(self) -> LabelStore:
        path = self.place.file(self.FILES[0])
        if path.suffix == ".json":
            ids, rows = read_labelled_ids(path, len(CLASSES))
            files = [f"{int(image):012d}.jpg" for image in ids if image.isdecimal()]
            if len(files) < len(ids):
                raise wrong(path, "an image id is not a number; expected the ids of COCO")
            return LabelStore.from_lists(rows, names=CLASSES, ids=files)
        every = self.needed(self.annotated("train2017"), "coco/annotations/instances_train2017.json")
        row = rows_by_id([str(image) for image in every.ids])
        wanted = [f"{int(image):012d}.jpg" for image in read_names(path, "image", allowed=r"[0-9]{1,12}")]
        absent = [image for image in wanted if image not in row]
        if absent:
            raise wrong(path, f"'{absent[0]}' is not in train2017; expected the ids of COCO's training images")
        return every.take([row[image] for image in wanted])

    def papers_test(self, train: LabelStore) -> tuple[LabelStore, tuple[str, ...]]:
        """val2017, or val2014 without the images of training."""
        test = self.annotated("val2017")
        if test is not None:
            return test, ()
        test = self.needed(self.listed("coco_val_full"), self.FILES[1])
        trained = {number(str(image)) for image in train.ids}
        kept = [row for row, image in enumerate(test.ids) if number(str(image)) not in trained]
        return test.take(kept), (f"test: {len(kept):,} images of val2014; the paper tests on the 5,000 of val2017",)


class PltCoco(CocoImages):
    """PLT-COCO: long-tailed COCO photographs with 40 % of the training positives missing.

    https://cocodataset.org: `coco/annotations/instances_{train,val}2017.json`, images in `coco/{train,val}2017/`.
    Without them the label lists of https://github.com/xinyu1205/robust-loss-mlml:
    `coco/coco_{train,val}_full.txt[.gz]`, images of 2014.

    Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and
    Partial Labels", ICCV 2023, section 5.1. The authors' list of 2,962 images is not published (the list in their
    repository is that of COCO-MLT), so images are drawn along the Pareto curve with the parameters of their script
    (largest 1400, power 10), by the run's seed or, so that all seeds share one list, by `drawn_by`; then each positive
    is hidden with probability `missing` and every image keeps one.
    `DataSet.truth` has the labels before hiding; validation and test keep all.
    """

    name = "plt_coco"
    FILES = (
        "coco/annotations/instances_train2017.json|coco/coco_train_full.txt.gz|coco/coco_train_full.txt",
        "coco/annotations/instances_val2017.json|coco/coco_val_full.txt.gz|coco/coco_val_full.txt",
    )

    def __init__(
        self,
        *,
        missing: float = 0.4,
        largest: int = 1400,
        power: float = 10.0,
        size: int = 224,
        validation: float = 0.1,
        drawn_by: int | None = None,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if not 0 <= missing < 1:
            raise UserError(f"plt_coco.missing is {missing}; expected the share of positives to hide, 0 to below 1")
        super().__init__(root, size, validation, seed)
        self.missing, self.largest, self.power = missing, largest, power
        self.drawn_by = seed if drawn_by is None else drawn_by

    def splits(self) -> Splits:
        train, test = self.annotated("train2017"), self.annotated("val2017")
        remarks = []
        if train is None or test is None:  # never train of one year and test of the other: they share images
            train = self.needed(self.listed("coco_train_full"), self.FILES[0])
            test = self.needed(self.listed("coco_val_full"), self.FILES[1])
            remarks.append("train and test are drawn from COCO 2014; the paper's are from 2017")
        train = train.take(pareto(train, self.largest, self.power, self.drawn_by))
        drawn = f"train: {len(train):,} images drawn by seed {self.drawn_by}"
        remarks.append(f"{drawn}; the paper's list of 2,962 is not published")
        splits = Splits.held_out(train, test, self.validation, self.seed).remarked(*remarks)
        return splits.with_hidden(self.missing, self.seed)


def places(image: str) -> list[tuple[str, str]]:
    """Folders and file names under which an image may be: COCO gave the same images new names in 2017."""
    if named := re.fullmatch(r"COCO_(train|val)2014_\d{12}\.jpg", image):
        return [(f"{named[1]}2014", image), *_of_2017(image[-16:])]
    if re.fullmatch(r"\d{12}\.jpg", image):
        return [*_of_2017(image), *((f"{part}2014", f"COCO_{part}2014_{image}") for part in ("train", "val"))]
    raise UserError(f"'{image[:80]}' is not the name of a COCO image; expected one such as 000000000042.jpg")


def _of_2017(file: str) -> list[tuple[str, str]]:
    return [("train2017", file), ("val2017", file)]


def number(image: str) -> str:
    """The part of a file name that never changed."""
    return image[-16:]
