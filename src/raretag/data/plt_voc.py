"""PLT-VOC: long-tailed PASCAL VOC photographs with 40 % of the training positives missing.

The devkit of http://host.robots.ox.ac.uk/pascal/VOC as `VOCdevkit/` with `VOC2012/` and `VOC2007/`; the list of
training images of https://github.com/wannature/COMIC (dataset/voc/voc/img_id.txt) as
`VOCdevkit/VOC2012/ImageSets/Main/plt-voc-train.txt`, or else it is drawn from VOC2012 trainval.

Zhang et al., "Learning in Imperfect Environment: Multi-Label Classification with Long-Tailed Distribution and Partial
Labels", ICCV 2023, section 5.1. The published list has 2,830 images (the paper says 2,569) and no published file says
which labels are missing: each positive is hidden with probability `missing`, and every image keeps one. Without the
list, images are drawn along the Pareto curve with the parameters of the authors' script (largest 1400, power 12).
Difficult objects do not count, as in the authors' counts. `DataSet.truth` has the labels before hiding; validation
and test keep all.
"""

from __future__ import annotations

from pathlib import Path

from raretag.core.errors import UserError
from raretag.data.building.place import Place
from raretag.data.building.splits import Splits
from raretag.data.building.voc_devkit import Difficult, FeatureName, VocDevkit
from raretag.labels.longtail import pareto

FILES = (
    "VOCdevkit/VOC2012/ImageSets/Main/plt-voc-train.txt|VOCdevkit/VOC2012/ImageSets/Main/trainval.txt",
    "VOCdevkit/VOC2007/ImageSets/Main/test.txt|VOCdevkit/VOC2012/ImageSets/Main/test.txt",
)
LARGEST, POWER = 1400, 12.0


class PltVoc(VocDevkit):
    name = "plt_voc"

    def __init__(
        self,
        *,
        missing: float = 0.4,
        difficult: Difficult = "negative",
        features: FeatureName = "none",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        if not 0 <= missing < 1:
            raise UserError(f"plt_voc.missing is {missing}; expected the share of positives to hide, from 0 to below 1")
        super().__init__(Place("plt_voc", __doc__, root), difficult, features, size, validation, seed)
        self.missing = missing

    def splits(self) -> Splits:
        test, remarks = self.papers_test()
        path = self.place.file(FILES[0])
        train = self.ids(FILES[0])
        if path.stem == "trainval":
            train = [train[row] for row in pareto(self.store(train), LARGEST, POWER, self.seed)]
            remarks = (*remarks, f"train: {len(train):,} images drawn from trainval, as the published list is absent")
        return self.held_out(train, test).remarked(*remarks).with_hidden(self.missing, self.seed)
