"""COCO 2014 or 2017: photographs with up to 80 kinds of objects.

https://cocodataset.org: `coco/annotations/instances_{train,val}{2014,2017}.json`, images in
`coco/{train,val}{2014,2017}/`. For 2014 the label lists of https://github.com/xinyu1205/robust-loss-mlml do instead:
`coco/coco_train_full.txt[.gz]`, ...

Training and test parts are COCO's train and val; a share of the training images is held out for validation. Lists
with fewer positives (`annotations: 0.75left`, `0.4left`, `singlelabel`) keep at least one for each image; all else is
unknown then, and `DataSet.truth` has the full labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from raretag.core.errors import UserError
from raretag.data.building.coco_images import CocoImages
from raretag.data.building.place import Place
from raretag.data.building.splits import Splits
from raretag.data.building.truth import partial
from raretag.labels.store import LabelStore

FILES = (
    "coco/annotations/instances_train2014.json|coco/annotations/instances_train2017.json|coco/coco_train_full.txt.gz"
    "|coco/coco_train_full.txt",
    "coco/annotations/instances_val2014.json|coco/annotations/instances_val2017.json|coco/coco_val_full.txt.gz"
    "|coco/coco_val_full.txt",
)


class Coco(CocoImages):
    name = "coco"

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
        super().__init__(Place("coco", __doc__, root), size, validation, seed)
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
