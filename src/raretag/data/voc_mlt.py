"""VOC-MLT: 1,142 PASCAL VOC photographs, 20 labels, long-tailed (775 persons, 4 cows).

The devkit of http://host.robots.ox.ac.uk/pascal/VOC as `VOCdevkit/` with `VOC2012/` and `VOC2007/`; the list of
training images of https://github.com/wutong16/DistributionBalancedLoss (appendix/VOCdevkit/longtail2012/img_id.txt)
as `VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt`.

Wu et al., "Distribution-Balanced Loss", ECCV 2020, section 4.1. Difficult objects are positive, as in the authors'
code. The paper tests on the 4,952 images of VOC2007 test and has no validation part; a share of the training images
is held out for it. `features: mobilenetv2` reads ready-made features instead of images.
"""

from __future__ import annotations

from pathlib import Path

from raretag.data.building.place import Place
from raretag.data.building.splits import Splits
from raretag.data.building.voc_devkit import Difficult, FeatureName, VocDevkit

FILES = (
    "VOCdevkit/VOC2012/ImageSets/Main/voc-mlt-train.txt|VOCdevkit/longtail2012/img_id.txt",
    "VOCdevkit/VOC2007/ImageSets/Main/test.txt|VOCdevkit/VOC2012/ImageSets/Main/test.txt",
)


class VocMlt(VocDevkit):
    name = "voc_mlt"

    def __init__(
        self,
        *,
        difficult: Difficult = "positive",
        features: FeatureName = "none",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        super().__init__(Place("voc_mlt", __doc__, root), difficult, features, size, validation, seed)

    def splits(self) -> Splits:
        test, remarks = self.papers_test()
        return self.held_out(self.ids(FILES[0]), test).remarked(*remarks)
