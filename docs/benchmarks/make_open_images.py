"""A small stand-in for Open Images, in its layout: `python docs/benchmarks/make_open_images.py FOLDER`.

PASCAL VOC photographs of $RARETAG_DATA under new ids, with labels as people verify them there: of a training image half
of the objects are confirmed and a tenth of the absent classes denied; the rest is unknown. Validation and test images
have all labels. FOLDER/open-images is then read as the real thing: `RARETAG_DATA=FOLDER raretag bench zhang_fig_2`.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import numpy as np

from raretag.data.sets.voc import CLASSES, read_objects

CONFIRMED, DENIED = 0.5, 0.1
HELD_OUT = 1500  # images of the test list: a third of them for validation


def main(folder: Path) -> None:
    voc = Path(os.environ["RARETAG_DATA"]).resolve() / "VOCdevkit" / "VOC2012"
    train, test = (
        (voc / "ImageSets/Main" / name).read_text(encoding="utf-8").split()
        for name in ("plt-voc-train.txt", "test.txt")
    )
    parts = {"train": train, "validation": test[: HELD_OUT // 3], "test": test[HELD_OUT // 3 : HELD_OUT]}
    out = folder / "open-images"
    out.mkdir(parents=True, exist_ok=True)
    keys = [f"/m/{number:05d}" for number in range(len(CLASSES))]
    described = "".join(f"{key},{name}\n" for key, name in zip(keys, CLASSES, strict=True))
    (out / "class-descriptions.csv").write_text("LabelName,DisplayName\n" + described, encoding="utf-8")
    draw = np.random.default_rng(0)
    for part, images in parts.items():
        (out / part).mkdir(exist_ok=True)
        lines = ["ImageID,Source,LabelName,Confidence"]
        for image in images:
            id = hashlib.sha256(image.encode()).hexdigest()[:16]
            link = out / part / f"{id}.jpg"
            if not link.exists():
                link.symlink_to(voc / "JPEGImages" / f"{image}.jpg")
            there = {name for name, difficult in read_objects(voc / "Annotations" / f"{image}.xml") if not difficult}
            for key, name in zip(keys, CLASSES, strict=True):
                if part != "train" or draw.random() < (CONFIRMED if name in there else DENIED):
                    lines.append(f"{id},verification,{key},{int(name in there)}")
        file = out / f"{part}-annotations-human-imagelabels.csv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
