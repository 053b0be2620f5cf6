"""PLT-COCO: long-tailed COCO photographs with 40 % of the training positives missing.

https://cocodataset.org: `coco/annotations/instances_{train,val}2017.json`, images in `coco/{train,val}2017/`. Without
them the label lists of https://github.com/xinyu1205/robust-loss-mlml: `coco/coco_{train,val}_full.txt[.gz]`, images
of 2014.

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels", ICCV 2023, section 5.1. The authors' list of 2,962 images is not published (the list in their repository is
that of COCO-MLT), so images are drawn along the Pareto curve with the parameters of their script (largest 1400, power
10), then each positive is hidden with probability `missing` and every image keeps one. `DataSet.truth` has the labels
before hiding; validation and test keep all.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.building.coco_images import CocoImages
from raretag.data.building.place import Place
from raretag.data.building.splits import Splits
from raretag.labels.longtail import pareto

FILES = (
    "coco/annotations/instances_train2017.json|coco/coco_train_full.txt.gz|coco/coco_train_full.txt",
    "coco/annotations/instances_val2017.json|coco/coco_val_full.txt.gz|coco/coco_val_full.txt",
)


class PltCoco(CocoImages):
    name = "plt_coco"

    def __init__(
        self,
        *,
        missing: float = 0.4,
        largest: int = 1400,
        power: float = 10.0,
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if not 0 <= missing < 1:
            raise UserError(f"plt_coco.missing is {missing}; expected the share of positives to hide, 0 to below 1")
        super().__init__(Place("plt_coco", __doc__, root), size, validation, seed)
        self.missing, self.largest, self.power = missing, largest, power

    def splits(self) -> Splits:
        train, test = self.annotated("train2017"), self.annotated("val2017")
        remarks = []
        if train is None or test is None:  # never train of one year and test of the other: they share images
            train = self.needed(self.listed("coco_train_full"), FILES[0])
            test = self.needed(self.listed("coco_val_full"), FILES[1])
            remarks.append("train and test are drawn from COCO 2014; the paper's are from 2017")
        train = train.take(pareto(train, self.largest, self.power, self.seed))
        remarks.append(f"train: {len(train):,} images drawn by the seed; the paper's list of 2,962 is not published")
        splits = Splits.held_out(train, test, self.validation, self.seed).remarked(*remarks)
        return splits.with_hidden(self.missing, self.seed)
