"""COCO-MLT: 1,909 COCO photographs, 80 labels, long-tailed (1,128 persons, 6 hair driers).

The list of https://github.com/wutong16/DistributionBalancedLoss (appendix/coco/longtail2017) as
`coco/coco_mlt_train.json` (image_ids and labels) or, with `coco/annotations/instances_train2017.json`, as
`coco/longtail2017/img_id.txt`; test labels in `coco/annotations/instances_val2017.json`; images of
https://cocodataset.org in `coco/train2017/` and `coco/val2017/`.

Wu et al., "Distribution-Balanced Loss", ECCV 2020, section 4.1. The paper tests on the 5,000 images of val2017.
Without their labels the published list of val2014 (`coco/coco_val_full.txt`) stands in, without the images that are
in training. A share of the training images is held out for validation. The published list is plain text even where it
is called `img_id.pkl`; the `class_freq.pkl` beside it is a pickle and is not read.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.coco_images import CLASSES, CocoImages, number
from raretag.data.building.place import Place
from raretag.data.building.splits import Splits, rows_by_id
from raretag.data.reading.bounded import wrong
from raretag.data.reading.id_json import labelled_ids
from raretag.data.reading.label_list import names
from raretag.labels.store import LabelStore

FILES = (
    "coco/coco_mlt_train.json|coco/longtail2017/img_id.txt|coco/longtail2017/img_id.pkl",
    "coco/annotations/instances_val2017.json|coco/coco_val_full.txt.gz|coco/coco_val_full.txt",
)


class CocoMlt(CocoImages):
    name = "coco_mlt"

    def __init__(self, *, size: int = 224, validation: float = 0.1, seed: int = 0, root: Path | None = None) -> None:
        super().__init__(Place("coco_mlt", __doc__, root), size, validation, seed)

    def splits(self) -> Splits:
        train = self._train()
        test, remarks = papers_test(self, train)
        return Splits.held_out(train, test, self.validation, self.seed).remarked(*remarks)

    def _train(self) -> LabelStore:
        path = self.place.file(FILES[0])
        if path.suffix == ".json":
            ids, rows = labelled_ids(path, len(CLASSES))
            files = [f"{int(image):012d}.jpg" for image in ids if image.isdecimal()]
            if len(files) < len(ids):
                raise wrong(path, "an image id is not a number; expected the ids of COCO")
            return LabelStore.from_lists(rows, names=CLASSES, ids=files)
        every = self.needed(self.annotated("train2017"), "coco/annotations/instances_train2017.json")
        row = rows_by_id([str(image) for image in every.ids])
        wanted = [f"{int(image):012d}.jpg" for image in names(path, "image", allowed=r"[0-9]{1,12}")]
        absent = [image for image in wanted if image not in row]
        if absent:
            raise wrong(path, f"'{absent[0]}' is not in train2017; expected the ids of COCO's training images")
        return every.take([row[image] for image in wanted])


def papers_test(images: CocoImages, train: LabelStore) -> tuple[LabelStore, tuple[str, ...]]:
    """val2017, or val2014 without the images of training."""
    test = images.annotated("val2017")
    if test is not None:
        return test, ()
    test = images.needed(images.listed("coco_val_full"), FILES[1])
    seen = {number(str(image)) for image in train.ids}
    kept = [row for row, image in enumerate(test.ids) if number(str(image)) not in seen]
    return test.take(kept), (f"test: {len(kept):,} images of val2014; the paper tests on the 5,000 of val2017",)
