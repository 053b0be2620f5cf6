"""COCO: its categories, its label files, and where the image of an id is."""

from __future__ import annotations

import os
import re

from raretag.core.errors import UserError
from raretag.data.building.place import Place
from raretag.data.building.splits import NamedSet
from raretag.data.reading import coco_json, label_list
from raretag.labels.collection import Inputs
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

    def __init__(self, place: Place, size: int, validation: float, seed: int) -> None:
        self.place, self.size, self.validation, self.seed = place, size, validation, seed

    def annotated(self, part: str) -> LabelStore | None:
        """The labels of the instances file of `train2014`, `val2017`, ...; None if it is absent."""
        path = self.place.find(f"coco/annotations/instances_{part}.json|coco/instances_{part}.json")
        if path is None:
            return None
        found = coco_json.instances(path)
        return LabelStore.from_lists(found.rows, names=found.names, ids=found.files)

    def listed(self, name: str) -> LabelStore | None:
        """The labels of a published list, `coco_train_full` for one; None if it is absent."""
        path = self.place.find(f"coco/{name}.txt.gz|coco/{name}.txt")
        if path is None:
            return None
        files, rows = label_list.label_list(path, len(CLASSES))
        return LabelStore.from_lists(rows, names=CLASSES, ids=files)

    def needed(self, store: LabelStore | None, names: str) -> LabelStore:
        if store is None:
            self.place.file(names)  # says what is missing and where to get it
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
