"""CUB-200-2011: 11,788 photographs of birds with 312 attributes, 31 of them present in an image.

https://www.vision.caltech.edu/datasets/cub_200_2011, unpacked as `CUB_200_2011/`, with `attributes.txt` beside that
folder (as in the archive) or in `CUB_200_2011/attributes/`.

Official split: 5,994 + 5,794 images; a share of the training images is held out for validation. Annotators also said
how sure they were. What they called "not visible" counts as negative in the papers; `not_visible: unknown` says what
it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from raretag.data.building.place import Place
from raretag.data.building.splits import NamedSet, Splits
from raretag.data.reading import cub
from raretag.data.reading.bounded import inside
from raretag.labels.collection import Inputs
from raretag.labels.store import LabelStore

FILES = (
    "CUB_200_2011/images.txt",
    "CUB_200_2011/train_test_split.txt",
    "CUB_200_2011/attributes/image_attribute_labels.txt",
    "attributes.txt|CUB_200_2011/attributes/attributes.txt|CUB_200_2011/attributes.txt",
)


class Cub(NamedSet):
    name = "cub"

    def __init__(
        self,
        *,
        not_visible: Literal["negative", "unknown"] = "negative",
        size: int = 224,
        validation: float = 0.1,
        seed: int = 0,
        root: Path | None = None,
    ) -> None:
        self.not_visible, self.size, self.validation, self.seed = not_visible, size, validation, seed
        self.place = Place("cub", __doc__, root)

    def splits(self) -> Splits:
        images = cub.numbered(self.place.file(FILES[0]), "image")
        names = cub.numbered(self.place.file(FILES[3]), "attribute", 10_000)
        training = cub.training_part(self.place.file(FILES[1]), len(images))
        present, visible = cub.attributes(self.place.file(FILES[2]), len(images), len(names))
        if self.not_visible == "unknown":
            present[~visible] = -1
        store = LabelStore.from_dense(present, names=names, ids=images)
        train, test = store.take(np.nonzero(training)[0]), store.take(np.nonzero(~training)[0])
        return Splits.held_out(train, test, self.validation, self.seed).remarked(not_visible=self.not_visible)

    def inputs(self, store: LabelStore, part: str) -> Inputs:
        source = self.place.file(FILES[0])
        folder = source.parent / "images"
        paths = [inside(folder, str(image), source) for image in store.ids]
        return self.place.images(paths, self.size, self.seed)
